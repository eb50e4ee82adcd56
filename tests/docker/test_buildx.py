"""A BuildKit on another machine, by TLS and buildx: it builds and pushes; no engine is here."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from docker.api import APIClient

from container_training.operators.image import BuildAndPushImageOperator, BuildImageOperator
from container_training.work.images.engine import default_engine_url
from local_stack.parts.newer_docker import PROGRAMS, find_newer_docker
from local_stack.settings import StackSettings
from tests.support.bed.image_tasks import (
    build,
    make_context_dir,
    processes_with,
    run_test,
    signalled,
    task_context,
)
from tests.support.bed.machines import Machines
from tests.support.bed.port_tunnels import port_tunnels
from tests.support.bed.remote_buildkit import buildkit_bridge
from tests.support.certificates import write_certificates
from tests.support.ports import reserve_port
from tests.support.waiting import wait_until
from training_api.errors import EngineUnavailable

pytestmark = [
    pytest.mark.docker,
    pytest.mark.needs_root,
    pytest.mark.needs_program("newer docker"),
    pytest.mark.usefixtures("image_connections", "no_engine_here"),
]

#: The engine of the tests, which the workers of most of them do not have.
HERE = default_engine_url()
#: No step of an earlier run is in the builder's cache.
BEGIN = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\nENV RUN_OF_TESTS={uuid.uuid4()}\n"
#: Option of buildx's driver -> file of the certificates.
TLS_OPTIONS = {"cacert": "ca", "cert": "cert", "key": "key"}
SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def builder(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The extras of a connection to a machine with a BuildKit that reaches the registry."""
    programs = find_newer_docker(StackSettings())
    assert programs is not None
    certificates = tmp_path_factory.mktemp("certificates")
    write_certificates(certificates, "127.0.0.1")
    machines = Machines(
        nodes=1,
        kind="b",
        engine_program=str(programs / PROGRAMS["docker.io"]),
        # Only with containerd's store does the engine's BuildKit push by itself.
        configuration={"features": {"containerd-snapshotter": True}, "storage-driver": "overlayfs"},
    )
    try:
        machines.up()
        (node,) = machines.nodes
        socket = Path(node.docker_host.removeprefix("unix://"))
        with (
            port_tunnels(node.namespace, [int(registry.rpartition(":")[2])]),
            buildkit_bridge(socket, certificates, reserve_port()) as url,
        ):
            yield {"builder_url": url, "builder_cert_path": str(certificates)}
    finally:
        machines.down()


@pytest.fixture(scope="module")
def base(api: APIClient, base_image: str, registry: str) -> Iterator[str]:
    """The base image, in the registry."""
    name = f"{registry}/p-1/image-tests/base"
    api.tag(base_image, name, "1")
    for message in api.push(name, "1", stream=True, decode=True):
        assert "error" not in message, message
    yield f"{name}:1"
    api.remove_image(f"{name}:1")


@pytest.fixture
def no_engine_here(builder: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with the plugin buildx and without an engine, whose connection names the builder."""
    programs = find_newer_docker(StackSettings())
    assert programs is not None
    home = tmp_path / "docker-config"
    (home / "cli-plugins").mkdir(parents=True)
    (home / "cli-plugins" / "docker-buildx").symlink_to(programs / PROGRAMS["docker-buildx"])
    monkeypatch.setenv("DOCKER_CONFIG", str(home))
    monkeypatch.setenv("PATH", str((programs / PROGRAMS["docker-cli"]).parent), prepend=":")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    connect(monkeypatch, builder)


def connect(monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", json.dumps({"conn_type": "docker", "extra": extra}))


def context_dir(folder: Path, dockerfile: str, **files: str) -> str:
    (folder / "context").mkdir()
    return make_context_dir(folder / "context", dockerfile, **files)


def test_what_the_remote_builder_pushes_is_found_by_digest_and_not_built_again(
    tmp_path: Path, base: str, registry: str, task_log: list[str]
) -> None:
    folder = context_dir(tmp_path, BEGIN + "COPY note /\nRUN cat /note\n", note="made elsewhere")
    name = f"{registry}/p-1/image-tests/buildx"

    image = build(folder, name, base)
    first = list(task_log)
    task_log.clear()
    again = build(folder, name, base)
    run_test(image, args=["cat", "/note"], docker_url=HERE)

    assert re.fullmatch(rf"{name}:ctx-[0-9a-f]{{16}}@sha256:[0-9a-f]{{64}}", image)
    assert any(line.endswith(" made elsewhere") for line in first)
    assert again == image
    assert f"registry {registry} has {image.partition('@')[0]}: nothing is built" in task_log
    assert not [line for line in task_log if line.startswith("#")]
    assert "stdout | made elsewhere" in task_log


def test_an_engine_gives_the_same_content_the_same_tag(
    tmp_path: Path, base: str, registry: str, monkeypatch: pytest.MonkeyPatch, task_log: list[str]
) -> None:
    folder = context_dir(tmp_path, BEGIN + "RUN true\n")
    remote = build(folder, f"{registry}/p-1/image-tests/same", base)

    here = build(
        folder,
        f"{registry}/p-1/image-tests/same",
        base,
        builder="classic",
        docker_url=HERE,
    )

    assert here == remote
    assert any("pulling it, which is less than building it" in line for line in task_log)


def test_a_secret_is_there_for_its_step_and_nothing_of_the_build_is_left_on_the_worker(
    tmp_path: Path, base: str, registry: str, task_log: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_BUILD_TOKEN", SECRET)
    step = (
        "RUN --mount=type=secret,id=token sha256sum < /run/secrets/token > /proof && cat /run/secrets/token\n"
    )
    folder = context_dir(tmp_path, BEGIN + step)

    image = build(
        folder, f"{registry}/p-1/image-tests/secret", base, secrets={"token": "variable:build_token"}
    )

    run_test(image, args=["cat", "/proof"], docker_url=HERE)
    proof = subprocess.run(["sha256sum"], input=SECRET.encode(), capture_output=True, check=True).stdout
    assert f"stdout | {proof.decode().strip()}" in task_log
    assert SECRET not in "\n".join(task_log)
    assert any(line.endswith(" ***") for line in task_log)
    assert not list(tmp_path.glob("buildx-*"))
    assert [path.name for path in (tmp_path / "docker-config").iterdir()] == ["cli-plugins"]


def test_a_build_with_its_test_is_tested_by_the_workers_engine(
    tmp_path: Path, base: str, registry: str
) -> None:
    operator = BuildAndPushImageOperator(
        task_id="build",
        context_dir=context_dir(tmp_path, BEGIN + "COPY note /\n", note="made elsewhere"),
        image=f"{registry}/p-1/image-tests/tested",
        build_args={"BASE_IMAGE": base},
        builder="buildx",
        test_args=["cat", "/note"],
        docker_url=HERE,
    )

    image = operator.execute(task_context())

    assert re.fullmatch(rf"{registry}/p-1/image-tests/tested@sha256:[0-9a-f]{{64}}", image)


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        ("RUN echo wrong >&2; exit 7\n", r"BuildFailed: \[2/2\] RUN .* exited with 7; .*\n    wrong$"),
        ("FORM scratch\n", "BuildFailed: .*unknown instruction: FORM"),
        ("COPY missing.txt /\n", "BuildFailed: .*missing.txt"),
    ],
    ids=["a step", "syntax", "no file"],
)
def test_what_fails_is_named(tmp_path: Path, base: str, registry: str, dockerfile: str, message: str) -> None:
    with pytest.raises(AirflowFailException, match=message):
        build(context_dir(tmp_path, BEGIN + dockerfile), f"{registry}/p-1/image-tests/broken", base)


def test_a_builder_of_the_users_buildx_is_used_by_its_name(
    tmp_path: Path, base: str, registry: str, builder: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [f"{key}={builder['builder_cert_path']}/{file}.pem" for key, file in TLS_OPTIONS.items()]
    create = ["docker", "buildx", "create", "--name", "shared", "--driver", "remote"]
    create += [word for option in options for word in ("--driver-opt", option)]
    subprocess.run([*create, builder["builder_url"]], check=True)
    connect(monkeypatch, {"builder_name": "shared"})

    image = build(context_dir(tmp_path, BEGIN + "RUN true\n"), f"{registry}/p-1/image-tests/named", base)

    assert "@sha256:" in image


def test_who_has_another_certificate_is_told(
    tmp_path: Path, base: str, registry: str, builder: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    write_certificates(others, "127.0.0.1")
    connect(monkeypatch, builder | {"builder_cert_path": str(others)})

    with pytest.raises(EngineUnavailable, match=r"no builder answers at tcp://.*CERTIFICATE_VERIFY_FAILED"):
        build(context_dir(tmp_path, BEGIN + "RUN true\n"), f"{registry}/p-1/image-tests/other", base)


def test_killing_the_task_ends_the_build(tmp_path: Path, base: str, registry: str) -> None:
    step = f"sleep 613.{uuid.uuid4().int % 10**9}"  # of this run
    operator = BuildImageOperator(
        task_id="build",
        context_dir=context_dir(tmp_path, BEGIN + f"RUN {step}\n"),
        image=f"{registry}/p-1/image-tests/slow",
        build_args={"BASE_IMAGE": base},
    )

    killed = signalled(lambda: processes_with(step), operator.on_kill)
    with killed, pytest.raises(AirflowFailException, match="build was cancelled"):
        operator.execute(task_context())

    wait_until(lambda: not processes_with(step), "the build's step has ended")
