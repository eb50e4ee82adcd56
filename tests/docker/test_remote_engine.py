"""An engine on another machine, by TLS: it builds, tests and pushes; this one pulls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import docker.errors
import pytest
from docker.api import APIClient

from container_training.hooks.image import ImageHook
from tests.support.bed.image_tasks import OWN, build, make_context_dir, push, run_test
from tests.support.bed.machines import Machines, Node
from tests.support.bed.port_tunnels import port_tunnels
from tests.support.certificates import write_certificates
from training_api.errors import EngineUnavailable

pytestmark = [pytest.mark.docker, pytest.mark.needs_root, pytest.mark.usefixtures("image_connections")]

PORT = 2376
BEGIN = f"ARG BASE_IMAGE\nFROM ${{BASE_IMAGE}}\n{OWN}"


@pytest.fixture(scope="module")
def remote(
    api: APIClient, base_image: str, registry: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Node, Path]]:
    """A machine whose engine wants a certificate, and the folder of the certificates."""
    certificates = tmp_path_factory.mktemp("certificates")
    machines = Machines(nodes=1, kind="r")
    try:
        machines.up()
        (node,) = machines.nodes
        write_certificates(certificates, node.address)
        node.power_off()
        names = {"--tlscacert": "ca.pem", "--tlscert": "cert.pem", "--tlskey": "key.pem"}
        files = [word for name, file in names.items() for word in (name, str(certificates / file))]
        node.engine_arguments = ["-H", f"tcp://{node.address}:{PORT}", "--tlsverify", *files]
        node.start()
        node.copy_image(base_image, api)
        with port_tunnels(node.namespace, [int(registry.rpartition(":")[2])]):
            yield node, certificates
    finally:
        machines.down()


def connect(monkeypatch: pytest.MonkeyPatch, node: Node, cert_path: Path | None) -> None:
    """Make the connection ``docker_default`` name the remote engine."""
    extra = {"engine_url": f"tcp://{node.address}:{PORT}"} | (
        {"cert_path": str(cert_path)} if cert_path else {}
    )
    monkeypatch.setenv("AIRFLOW_CONN_DOCKER_DEFAULT", json.dumps({"conn_type": "docker", "extra": extra}))


@pytest.mark.parametrize("step", ["RUN cat /note", "RUN --mount=type=tmpfs,target=/t cat /note"])
def test_what_the_remote_engine_builds_is_found_by_digest_from_here(
    step: str,
    tmp_path: Path,
    remote: tuple[Node, Path],
    api: APIClient,
    base_image: str,
    registry: str,
    task_log: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect(monkeypatch, *remote)
    here = "unix:///var/run/docker.sock"
    folder = make_context_dir(tmp_path, f"{BEGIN}COPY note /\n{step}\n", note="made elsewhere")

    image = build(folder, f"{registry}/p-1/image-tests/remote", base_image)
    run_test(image, args=["cat", "/note"])
    there = "\n".join(task_log)
    with pytest.raises(docker.errors.ImageNotFound):
        api.inspect_image(image)
    pushed = push(image, docker_url=here)
    run_test(image, args=["cat", "/note"], docker_url=here)

    assert ("BuildKit builds it" in there) == ("--mount" in step)
    assert there.count("stdout | made elsewhere") == 1
    assert "pulling" not in there
    assert pushed.partition("@")[2] == image.partition("@")[2]
    assert "is in the registry already: nothing is pushed" in "\n".join(task_log)
    assert f"pulling {image}" in task_log
    assert task_log.count("stdout | made elsewhere") == 2


def test_an_engine_that_wants_a_certificate_is_named_to_who_has_none(
    remote: tuple[Node, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(monkeypatch, remote[0], None)

    with pytest.raises(EngineUnavailable, match=rf"no Docker Engine answers at tcp://.*:{PORT}.*cert_path"):
        ImageHook().get_conn()
