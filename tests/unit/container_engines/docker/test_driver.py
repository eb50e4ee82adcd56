"""What the driver asks of a played engine, and what it makes of the answers."""

from __future__ import annotations

import base64
import io
import json
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from container_engines.base import SECRET_FOLDER, GivenSecrets, LogStream
from container_engines.docker.driver import ContainerLaunch, ContainerState, DockerDriver
from container_engines.docker.kinds import DOCKER, PODMAN
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from training_api.errors import EngineBusy, EngineError, ImageNotFound
from training_api.states import ReplicaState

IMAGE = "registry.test/project/trainer:1"
OWN = "owner=me"


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        engine.images[IMAGE] = Program(lines=((1, "one"), (2, "two"), (1, "three")), exit_code=3)
        yield engine


@pytest.fixture
def driver(engine: FakeDocker) -> Iterator[DockerDriver]:
    client = engine.client()
    yield DockerDriver(client)
    client.close()


@pytest.fixture
def podman(engine: FakeDocker) -> Iterator[DockerDriver]:
    client = engine.client()
    yield DockerDriver(client, PODMAN)
    client.close()


def launch(**changes: object) -> ContainerLaunch:
    return ContainerLaunch(**{"image": IMAGE, "labels": {"owner": "me"}, **changes})  # type: ignore[arg-type]


def test_a_container_is_bounded_and_without_privileges(driver: DockerDriver, engine: FakeDocker) -> None:
    driver.create(
        launch(
            command=["python"], args=["-V"], network="net", host_name="master", cpus=1.5, memory_bytes=2**26
        )
    )

    (body,) = engine.made
    host = body["HostConfig"]
    assert (body["Image"], body["Entrypoint"], body["Cmd"]) == (IMAGE, ["python"], ["-V"])
    assert body["Hostname"] == "master"
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (1_500_000_000, 2**26, 2**26)
    assert host["PidsLimit"] == 4096
    assert "NET_RAW" in host["CapDrop"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Init"] is True
    assert host["ExtraHosts"] == ["host.docker.internal:host-gateway"]
    assert host["LogConfig"]["Type"] == "local"
    assert (host["NetworkMode"], host["DnsOptions"]) == ("net", ["timeout:1", "attempts:1"])
    assert body["NetworkingConfig"]["EndpointsConfig"]["net"]["Aliases"] == ["master"]


def test_a_container_without_a_network_has_the_engines_own(driver: DockerDriver, engine: FakeDocker) -> None:
    driver.create(launch())

    (body,) = engine.made
    assert not body["NetworkingConfig"]
    assert body["HostConfig"]["NetworkMode"] == "default"
    assert not body["HostConfig"].get("Memory")


def test_a_container_runs_in_the_runtime_that_is_named(driver: DockerDriver, engine: FakeDocker) -> None:
    driver.create(launch(runtime="runsc"))
    driver.create(launch())

    assert [body["HostConfig"].get("Runtime") for body in engine.made] == ["runsc", None]


def test_a_container_is_followed_from_its_making_to_its_removal(driver: DockerDriver) -> None:
    container = driver.create(launch())
    made = driver.look_at(container)
    driver.start(container)
    ended = driver.look_at(container)
    lines = [(line.stream, line.text) for line in driver.read_logs(container, follow=False)]
    driver.remove_all(OWN)

    assert made == ContainerState(state=ReplicaState.CREATED)
    assert ended == ContainerState(
        state=ReplicaState.EXITED,
        exit_code=3,
        started_at=datetime(2026, 1, 1, 0, 0, 0, 123456, UTC),
        finished_at=datetime(2026, 1, 1, 0, 0, 2, 123456, UTC),
    )
    assert lines == [(LogStream.STDOUT, "one"), (LogStream.STDERR, "two"), (LogStream.STDOUT, "three")]
    assert driver.look_at(container) is None


def test_a_missing_image_is_none_and_no_container_is_made_of_it(driver: DockerDriver) -> None:
    assert driver.find_image(IMAGE) == {"Id": IMAGE, "RepoDigests": [], "Size": 1}
    assert driver.find_image("absent:1") is None
    with pytest.raises(ImageNotFound, match="make a container of absent:1: No such image"):
        driver.create(launch(image="absent:1"))


@pytest.mark.parametrize("login", [{}, DOCKER.token_login("secret"), {"username": "u", "password": "p"}])
def test_a_pull_is_made_with_a_login_a_token_or_nothing(
    driver: DockerDriver, engine: FakeDocker, login: dict[str, str]
) -> None:
    engine.registry["registry.test/p/new:2"] = Program()

    messages = list(driver.pull("registry.test/p/new:2", login))

    assert messages[-1] == {"status": "Done"}
    assert [json.loads(base64.urlsafe_b64decode(sent)) for sent in engine.logins] == [login]


def test_only_what_has_all_the_labels_is_removed(driver: DockerDriver, engine: FakeDocker) -> None:
    mine = driver.create(launch(labels={"owner": "me", "job": "1"}))
    other = driver.create(launch(labels={"owner": "me", "job": "2"}))
    driver.make_network("n1", {"owner": "me", "job": "1"})
    driver.make_network("n2", {"owner": "me", "job": "2"})

    driver.remove_all(OWN, "job=1")

    assert driver.look_at(mine) is None
    assert driver.look_at(other) is not None
    assert list(engine.networks) == ["n2"]


@pytest.mark.parametrize("status", [404, 409])
def test_removing_what_is_gone_or_just_going_is_no_error(
    driver: DockerDriver, engine: FakeDocker, status: int
) -> None:
    driver.create(launch())
    engine.refusals["DELETE containers"] = (status, "whatever the engine says")

    driver.remove_all(OWN)


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (409, "task 17d1ad07e61f: already exists"),
        (409, "id already in use"),
        (500, "failed to start shim: mkdir /run/containerd/runtime.v2.task/moby/51de: file exists: unknown"),
        (404, "Could not attach to network 9df9: rpc error: code = NotFound desc = network 9df9 not found"),
    ],
)
def test_a_container_that_its_engine_will_never_start_is_made_again(
    driver: DockerDriver, engine: FakeDocker, status: int, answer: str
) -> None:
    name = driver.create(launch())
    engine.refusals["POST containers/.*start"] = (status, answer)

    with pytest.raises(EngineBusy, match="made again"):
        driver.start(name)

    assert driver.look_at(name) is None


def test_a_removal_that_the_engine_refuses_is_an_error(driver: DockerDriver, engine: FakeDocker) -> None:
    driver.make_network("net", {"owner": "me"})
    engine.refusals["DELETE networks"] = (403, "network net has active endpoints")

    with pytest.raises(EngineError, match="remove network net: network net has active endpoints"):
        driver.remove_all(OWN)


def test_stopping_what_is_gone_is_no_error_and_killing_what_has_ended_is_one(driver: DockerDriver) -> None:
    container = driver.create(launch())
    driver.start(container)

    driver.stop("0" * 64, grace_seconds=0)
    with pytest.raises(EngineBusy, match="is not running"):
        driver.kill(container)


def test_secrets_are_files_that_all_may_read_and_variables_that_replace_no_others(
    driver: DockerDriver, engine: FakeDocker
) -> None:
    given = GivenSecrets(files={"ca": b"cert", "key": b"k"}, environment={"API_KEY": "k", "OWN": "theirs"})

    container = driver.create(launch(environment={"OWN": "ours"}, secrets=given))
    driver.put_files(container, {f"{SECRET_FOLDER}/{name}": text for name, text in given.files.items()})

    assert sorted(engine.made[0]["Env"]) == ["API_KEY=k", "OWN=ours"]
    ((asked, sent),) = engine.archives
    assert asked == f"PUT containers/{container}/archive"
    with tarfile.open(fileobj=io.BytesIO(sent)) as archive:
        found = {entry.name: (entry.mode, entry.uid, entry.size) for entry in archive}
    assert found == {
        "run/secrets": (0o755, 0, 0),
        "run/secrets/ca": (0o444, 0, 4),
        "run/secrets/key": (0o444, 0, 1),
    }


def test_a_container_without_secrets_is_given_none(driver: DockerDriver, engine: FakeDocker) -> None:
    driver.put_files(driver.create(launch()), {})

    assert not engine.archives


def test_podman_gets_its_own_log_file_and_the_gateway_as_its_machine(
    podman: DockerDriver, engine: FakeDocker
) -> None:
    podman.make_network("net", {})
    podman.create(launch(network="net", host_name="master"))

    (body,) = engine.made
    assert body["HostConfig"]["ExtraHosts"] == ["host.docker.internal:10.89.0.1"]
    assert body["HostConfig"]["LogConfig"]["Type"] == "k8s-file"


def test_podman_would_ignore_gpus_so_they_are_refused(podman: DockerDriver) -> None:
    with pytest.raises(EngineError, match="GPUs 0, but Podman ignores"):
        podman.create(launch(gpus=["0"]))
