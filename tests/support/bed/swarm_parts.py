"""
A swarm of three machines with registries that all of them reach.

It is made once per test session, on first use.
"""

from __future__ import annotations

import io
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import docker
import jwt
import pytest

from local_stack.stack import LocalStack
from tests.support.bed.registry import REPOSITORY, push, registry_program, run_registry
from tests.support.bed.swarm import Swarm
from tests.support.bed.swarm_images import push_agent_image, registry_of_swarm
from tests.support.own_images import build_image
from tests.support.run_id import current_run
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_service.access.registry_tokens import ISSUER, SERVICE, registry_configuration
from training_service.access.signing_key import ALGORITHM, CERTIFICATE_FILE, SigningKey

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
def engines(swarm: Swarm) -> Iterator[dict[str, docker.APIClient]]:
    """A client of each machine's engine, by the machine's name."""
    clients = {node.name: node.client() for node in swarm.nodes}
    yield clients
    for client in clients.values():
        client.close()


@pytest.fixture(scope="session")
def push_to_swarm(
    swarm: Swarm,
    stack: LocalStack,
    engine_client: docker.APIClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], ImageRef]]:
    """Push an image of this engine to a registry that the machines reach; return it by digest."""
    folder = tmp_path_factory.mktemp("swarm-registry")
    with registry_of_swarm(
        registry_program(stack), folder, engine_client, swarm.registry(OPEN_PORT)
    ) as push_image:
        yield push_image


@pytest.fixture(scope="session")
def swarm_image(push_to_swarm: Callable[[str], ImageRef], base_image: str) -> ImageRef:
    """The base image, by digest, in a registry that the machines reach; none of them has it yet."""
    return push_to_swarm(base_image)


@pytest.fixture(scope="session")
def agent_image(
    push_to_swarm: Callable[[str], ImageRef],
    engine_client: docker.APIClient,
    base_image: str,
) -> ImageRef:
    """The agent of this checkout, by digest, in a registry that the machines reach."""
    return push_agent_image(push_to_swarm, engine_client, base_image)


@pytest.fixture
def locked_image(
    swarm: Swarm, stack: LocalStack, engine_client: docker.APIClient, base_image: str, tmp_path: Path
) -> Iterator[LockedImage]:
    """An image that nobody has seen, in a registry that wants a token for it."""
    program, key, host = (
        registry_program(stack),
        SigningKey.load_or_make(tmp_path / "key"),
        swarm.registry(LOCKED_PORT),
    )
    name = current_run().image(f"swarm:{uuid.uuid4().hex}")
    dockerfile = f"FROM {base_image}\nLABEL once={name}\n"
    build_image(engine_client, name, fileobj=io.BytesIO(dockerfile.encode()))
    digest = push(program, tmp_path, engine_client, name)
    engine_client.remove_image(name)
    granted = [{"type": "repository", "name": REPOSITORY, "actions": ["pull"]}]
    with _realm(swarm.switch.host_address, _token(key, [])) as realm:
        authentication = registry_configuration(realm, str(tmp_path / "key" / CERTIFICATE_FILE))
        with run_registry(program, tmp_path, host, auth=authentication):
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
