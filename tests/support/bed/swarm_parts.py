"""
A swarm of three machines with registries that all of them reach.

It is made once per test session, on first use.
"""

from __future__ import annotations

import io
import json
import subprocess
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import docker
import jwt
import pytest

from local_stack.parts.part import answers_ok
from local_stack.parts.registry import find_registry_program
from local_stack.stack import LocalStack
from tests.support.bed.swarm_nodes import Swarm
from tests.support.own_images import build_image
from tests.support.ports import reserve_port
from tests.support.run_id import current_run
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_service.access.registry_tokens import ISSUER, SERVICE, registry_configuration
from training_service.access.signing_key import ALGORITHM, CERTIFICATE_FILE, SigningKey

REPOSITORY = "demo-project/python"
OPEN_PORT, LOCKED_PORT = 5000, 5001


@dataclass(frozen=True)
class LockedImage:
    """An image that the registry gives to bearers of the token only."""

    ref: ImageRef
    token: str


@pytest.fixture(scope="session")
def swarm() -> Iterator[Swarm]:
    """Three machines; the first one manages the swarm and runs containers, too."""
    swarm = Swarm(nodes=3, registry_ports=[OPEN_PORT, LOCKED_PORT])
    try:
        swarm.up()
        yield swarm
    finally:
        swarm.down()


@pytest.fixture(scope="session")
def swarm_image(
    swarm: Swarm,
    stack: LocalStack,
    engine_client: docker.APIClient,
    base_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ImageRef]:
    """The base image, by digest, in a registry that the machines reach; none of them has it yet."""
    folder = tmp_path_factory.mktemp("swarm-registry")
    program = _program(stack)
    digest = _push(program, folder, engine_client, base_image)
    host = swarm.registry(OPEN_PORT)
    with _registry(program, folder, host):
        yield parse_image_ref(f"{host}/{REPOSITORY}@{digest}")


@pytest.fixture
def locked_image(
    swarm: Swarm, stack: LocalStack, engine_client: docker.APIClient, base_image: str, tmp_path: Path
) -> Iterator[LockedImage]:
    """An image that nobody has seen, in a registry that wants a token for it."""
    program, key, host = (
        _program(stack),
        SigningKey.load_or_make(tmp_path / "key"),
        swarm.registry(LOCKED_PORT),
    )
    name = current_run().image(f"swarm:{uuid.uuid4().hex}")
    dockerfile = f"FROM {base_image}\nLABEL once={name}\n"
    build_image(engine_client, name, fileobj=io.BytesIO(dockerfile.encode()))
    digest = _push(program, tmp_path, engine_client, name)
    engine_client.remove_image(name)
    granted = [{"type": "repository", "name": REPOSITORY, "actions": ["pull"]}]
    with _realm(swarm.switch.host_address, _token(key, [])) as realm:
        authentication = registry_configuration(realm, str(tmp_path / "key" / CERTIFICATE_FILE))
        with _registry(program, tmp_path, host, auth=authentication):
            yield LockedImage(
                ref=parse_image_ref(f"{host}/{REPOSITORY}@{digest}"), token=_token(key, granted)
            )


def _token(key: SigningKey, access: list[dict[str, Any]]) -> str:
    now = datetime.now(UTC)
    claims = {"iss": ISSUER, "aud": SERVICE, "sub": "", "iat": now, "nbf": now, "access": access}
    return jwt.encode(
        claims | {"exp": now + timedelta(minutes=5)}, key.private, ALGORITHM, headers={"kid": key.id}
    )


@contextmanager
def _realm(host: str, token: str) -> Iterator[str]:
    """Give ``token`` to everybody who asks for one; yields the URL."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"token": token}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((host, 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}/token"
        server.shutdown()


def _program(stack: LocalStack) -> Path:
    program = find_registry_program(stack.settings)
    assert program is not None, "the tests of the swarm need the Debian package docker-registry"
    return program


def _push(program: Path, folder: Path, engine: docker.APIClient, image: str) -> str:
    """Push ``image`` into the registry's ``folder``, and return its digest."""
    # Over loopback, which every engine trusts without TLS.
    host = f"127.0.0.1:{reserve_port()}"
    with _registry(program, folder, host):
        engine.tag(image, f"{host}/{REPOSITORY}", "1")
        lines = list(engine.push(f"{host}/{REPOSITORY}", "1", stream=True, decode=True, auth_config={}))
        engine.remove_image(f"{host}/{REPOSITORY}:1")
    assert not [line for line in lines if "error" in line]
    (digest,) = [line["aux"]["Digest"] for line in lines if "aux" in line]
    return str(digest)


@contextmanager
def _registry(program: Path, folder: Path, address: str, **configuration: Any) -> Iterator[None]:
    """Serve the images in ``folder`` on ``address``, as long as the tests' process lives."""
    name = address.replace(":", "-")
    file = folder / f"{name}.json"  # which is YAML, too
    whole: Mapping[str, Any] = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
        **configuration,
    }
    file.write_text(json.dumps(whole))
    command = ["setpriv", "--pdeathsig", "KILL", str(program), "serve", str(file)]
    with (
        (folder / f"{name}.log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            # With authentication: 401, and the base of the server answers all the same.
            wait_until(
                lambda: answers_ok(f"http://{address}/"), f"a registry answers on {address} ({log.name})"
            )
            yield
        finally:
            process.terminate()
