"""The real parts on free ports, in a folder of their own."""

import io
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
from google.auth.credentials import AnonymousCredentials

from local_stack.errors import EngineMissing, PartFailed, PortTaken
from local_stack.parts import engine as engines
from local_stack.parts.base_image import BaseImage
from local_stack.processes.packages import find_program
from local_stack.processes.progress import Progress
from local_stack.processes.supervisor_config import OWNER_VARIABLE, Program
from local_stack.settings import CONTAINER_HOST_NAME, PORTS, Part, StackSettings
from local_stack.stack import LocalStack
from tests.support import web
from tests.support.dead_runs import remove_tree
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until

pytestmark = pytest.mark.docker

PARTS = (Part.ENGINE, Part.REGISTRY, Part.OBJECT_STORE)


def make_stack(state_dir: Path, **changes: object) -> LocalStack:
    ports = {name: reserve_port() for name in PORTS}
    said = io.StringIO()
    return LocalStack(
        StackSettings.model_validate({"state_dir": state_dir, **ports, **changes}), Progress(stream=said)
    )


def said_by(stack: LocalStack) -> str:
    assert isinstance(stack.progress.stream, io.StringIO)
    return stack.progress.stream.getvalue()


def processes_of(stack: LocalStack) -> list[psutil.Process]:
    owned = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(OWNER_VARIABLE) == str(stack.settings.state_dir):
                owned.append(process)
        except psutil.Error:
            continue
    return owned


@contextmanager
def short_folder() -> Iterator[Path]:
    """Like tmp_path, whose length leaves too little for a unix socket."""
    folder = current_run().make_folder("stack")
    try:
        yield folder
    finally:
        remove_tree(folder)


@pytest.fixture
def state_dir() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def stack(engine_client: docker.APIClient) -> Iterator[LocalStack]:
    """One stack for all tests that leave it up."""
    with short_folder() as folder:
        with make_stack(folder) as stack:
            stack.up(PARTS)
            yield stack
        assert processes_of(stack) == []


@pytest.fixture
def bucket(stack: LocalStack) -> Iterator[Any]:
    from google.cloud import storage  # heavy: only for the tests that use it

    client = storage.Client(
        project="demo-project",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": stack.settings.object_store_url},
    )
    with closing(client):
        yield client.bucket(stack.settings.bucket)


def test_the_parts_come_up_and_a_second_up_is_quick_and_changes_nothing(
    stack: LocalStack, bucket: Any
) -> None:
    before = {name: info.pid for name, info in stack.processes.all().items()}

    begun = time.monotonic()
    stack.up(PARTS)

    assert time.monotonic() - begun < scaled(5)
    assert {name: info.pid for name, info in stack.processes.all().items()} == before
    refused = web.get(f"http://{stack.settings.registry}/v2/")
    assert refused.status_code == 401
    assert f'realm="{stack.settings.training_url}/registry/token"' in refused.headers["WWW-Authenticate"]
    assert "jobs/" in {blob.name for blob in bucket.list_blobs()}


def test_a_container_reaches_the_object_store(stack: LocalStack) -> None:
    base = make_stack(stack.settings.state_dir)
    base.up([Part.BASE_IMAGE])
    url = stack.settings.container_environment["STORAGE_EMULATOR_HOST"]
    program = f"import urllib.request; print(urllib.request.urlopen('{url}/health').read().decode())"
    client = docker.DockerClient(base_url=stack.settings.engine_url)

    try:
        answer = client.containers.run(
            BaseImage.name_of(base.settings),
            ["python3", "-c", program],
            extra_hosts={CONTAINER_HOST_NAME: "host-gateway"},
            labels=current_run().labels,
            remove=True,
        )
    finally:
        client.close()

    assert json.loads(answer)["status"] == "ok"


def test_nothing_listens_on_all_addresses(stack: LocalStack) -> None:
    addresses = {
        connection.laddr.ip
        for process in processes_of(stack)
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }

    assert "127.0.0.1" in addresses
    assert not addresses & {"0.0.0.0", "::"}  # noqa: S104  # compared with


def test_objects_are_kept_byte_for_byte_by_parallel_writers_and_over_a_kill(
    stack: LocalStack, bucket: Any
) -> None:
    contents = {"jobs/one/": b"", "jobs/one": b"\r\n\x00--\r\n", "jobs/one/two": os.urandom(300_000) + b"\n"}
    for name, content in contents.items():
        bucket.blob(name).upload_from_string(content)

    store = stack.processes.info("object-store")
    assert store is not None
    assert store.pid is not None
    os.kill(store.pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(store.pid), "the killed object store is gone")
    stack.up(PARTS)

    assert {name: bucket.blob(name).download_as_bytes() for name in contents} == contents


def test_what_was_written_under_another_host_name_is_read_under_ones_own(
    stack: LocalStack, bucket: Any
) -> None:
    url = f"{stack.settings.object_store_url}/upload/storage/v1/b/{stack.settings.bucket}/o"
    headers = {"Host": f"{CONTAINER_HOST_NAME}:1", "Content-Type": "text/plain"}
    parameters = {"uploadType": "media", "name": "jobs/50% #1?"}
    web.post(url, params=parameters, headers=headers, content=b"from a container").raise_for_status()

    blob = bucket.get_blob("jobs/50% #1?")  # which brings the link that the download then uses

    assert blob is not None
    assert blob.download_as_bytes() == b"from a container"
    assert [b.download_as_bytes() for b in bucket.list_blobs(prefix="jobs/50")] == [b"from a container"]


def test_a_killed_part_is_started_again(stack: LocalStack) -> None:
    before = stack.processes.info("registry")
    assert before is not None
    assert before.pid is not None

    os.kill(before.pid, signal.SIGKILL)

    wait_until(lambda: stack.parts[Part.REGISTRY].is_healthy(), "the registry is healthy again")
    after = stack.processes.info("registry")
    assert after is not None
    assert after.pid not in {None, before.pid}


def test_a_stopped_part_is_started_by_up_which_says_so(stack: LocalStack) -> None:
    stack.processes.stop("registry")

    stack.up(PARTS)

    assert "registry: had stopped, started again" in said_by(stack)


def test_up_recovers_from_a_killed_supervisor(stack: LocalStack) -> None:
    pid = int((stack.settings.state_dir / "supervisord.pid").read_text())
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not stack.processes.is_running(), "the supervisor is gone")
    assert stack.settings.supervisor_socket.exists()

    stack.up(PARTS)

    assert stack.running() == {Part.REGISTRY, Part.OBJECT_STORE}
    assert len({process.name() for process in processes_of(stack)}) >= 2


def test_down_stops_the_parts_that_were_asked_for_and_then_leaves_nothing(state_dir: Path) -> None:
    stack = make_stack(state_dir)
    stack.up([Part.REGISTRY, Part.OBJECT_STORE])

    assert stack.down([Part.REGISTRY])
    assert stack.running() == {Part.OBJECT_STORE}
    assert stack.down()
    assert not stack.down()
    assert not stack.settings.supervisor_socket.exists()
    assert processes_of(stack) == []


def test_a_taken_port_is_refused_before_anything_starts(state_dir: Path, stack: LocalStack) -> None:
    other = make_stack(state_dir / "other", registry_port=stack.settings.registry_port)

    with other, pytest.raises(PortTaken, match="LOCAL_STACK_REGISTRY_PORT"):
        other.up([Part.REGISTRY])


def test_a_program_that_ends_at_once_fails_with_the_end_of_its_log(state_dir: Path) -> None:
    with make_stack(state_dir) as stack:
        registry = stack.parts[Part.REGISTRY]
        program = Program(
            name="registry", command=("sh", "-c", "echo no space left; exit 3"), start_retries=0
        )
        registry.programs = lambda: [program]  # type: ignore[method-assign]  # a part that is broken

        with pytest.raises(PartFailed, match=r"(?s)registry ended right after each start.*no space left"):
            stack.up([Part.REGISTRY])


def test_a_docker_host_that_does_not_answer_is_refused(state_dir: Path) -> None:
    stack = make_stack(state_dir, docker_host=f"tcp://127.0.0.1:{reserve_port()}")

    with stack, pytest.raises(EngineMissing, match="unset DOCKER_HOST"):
        stack.up([Part.ENGINE])


@pytest.fixture
def own_engine(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return the settings of a stack that starts its own engine."""
    if os.geteuid() != 0 or find_program("dockerd") is None:
        pytest.skip("only root can start an engine, and dockerd is needed")
    # In a network namespace of its own: with --bridge=none, dockerd removes docker0, which is another
    # engine's here.
    wrapper = state_dir / "bin" / "dockerd"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec unshare --net -- {find_program("dockerd")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    return {
        "docker_host": None,
        "engine_socket": state_dir / "docker.sock",
        "engine_data_root": state_dir / "data",
        "engine_exec_root": state_dir / "exec",
        "engine_pid_file": state_dir / "docker.pid",
        "engine_arguments": ("--bridge=none", "--iptables=false", "--ip-masq=false"),
    }


def test_an_engine_of_our_own_starts_over_stale_pid_files_and_stops(
    state_dir: Path, own_engine: dict[str, object]
) -> None:
    bridges = psutil.net_if_addrs().get("docker0")
    (state_dir / "exec" / "containerd").mkdir(parents=True)
    for stale in (state_dir / "docker.pid", state_dir / "exec" / "containerd" / "containerd.pid"):
        stale.write_text(str(os.getpid()))
    stack = make_stack(state_dir, **own_engine)
    with stack:
        stack.up([Part.ENGINE])

        assert stack.engine.is_ours()
        assert "started by this stack" in stack.engine.describe()
    assert processes_of(stack) == []
    assert psutil.net_if_addrs().get("docker0") == bridges


@pytest.mark.extended
def test_an_engine_starts_that_was_killed_while_it_removed_a_network(
    state_dir: Path, own_engine: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = {f"another-{number}" for number in range(8)}  # their records need several pages of the store
    pools = docker.types.IPAMConfig(pool_configs=[docker.types.IPAMPool("fd00:1::/64")])
    stack = make_stack(state_dir, **own_engine, health_timeout_seconds=scaled(8))
    with stack:
        stack.up([Part.ENGINE])
        with closing(docker.DockerClient(f"unix://{state_dir / 'docker.sock'}")) as client:
            for name in ("half-removed", *others):
                client.networks.create(name)
            client.networks.create("half-removed-6", enable_ipv6=True, ipam=pools)
        stack.down()
        half_remove(
            state_dir / "data" / "network" / "files" / "local-kv.db", "half-removed", "half-removed-6"
        )
        with monkeypatch.context() as without:
            without.setattr(engines, "finish_removals", lambda folder: [])
            with pytest.raises(PartFailed, match=r"engine (is not healthy|ended right after each start)"):
                stack.up([Part.ENGINE])
        log = stack.processes.log_of("engine").read_text(errors="replace")
        assert "index out of range" in log.partition("reservePools")[0][-500:]

        stack.up([Part.ENGINE])

        for name in ("half-removed", "half-removed-6"):
            assert f"killed while it removed the network {name};" in said_by(stack)
        with closing(docker.DockerClient(f"unix://{state_dir / 'docker.sock'}")) as client:
            assert {network.name for network in client.networks.list()} == {"none", "host", *others}


def half_remove(store: Path, *names: str) -> None:
    """Do what an engine does to networks' records before it removes the records."""
    content = store.read_bytes()
    for name in names:
        at = 0
        while (at := content.find(b'"name":"%b"' % name.encode(), at + 1)) >= 0:
            begin = content.rindex(b'{"addrSpace"', 0, at)
            record = content[begin:at].replace(b'"inDelete":false', b'"inDelete":true ')
            for addresses in (b'"ipamV4Info"', b'"ipamV6Info"'):
                record = record.replace(addresses, b'"-' + addresses[2:])
            content = content[:begin] + record + content[at:]
    store.write_bytes(content)
