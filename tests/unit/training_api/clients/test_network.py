"""The way to a server: proxies, authorities and certificates, for both kinds of clients."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import own_certificate
from training_api.clients.network import Network
from training_api.clients.training import AsyncTrainingClient, TrainingClient
from training_api.clients.vertex.client import VertexClient
from training_api.errors import ServiceError, TransportError
from training_api.vertex_jobs.address import VertexAddress

Ask = Callable[[str, Network], object]
PATH = "/v1/projects/demo/jobs/a"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def ask_in_thread(endpoint: str, network: Network) -> object:
    with TrainingClient(endpoint, "demo", network=network) as client:
        return client.get_job("a")


def ask_in_loop(endpoint: str, network: Network) -> object:
    async def ask() -> object:
        async with AsyncTrainingClient(endpoint, "demo", network=network) as client:
            return await client.get_job("a")

    return asyncio.run(ask())


@pytest.fixture(params=[ask_in_thread, ask_in_loop], ids=["threads", "asyncio"])
def ask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a client's question; nothing is set in the environment."""
    for name in (*VARIABLES, "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    question: Ask = request.param
    return question


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """Give the address of a server that answers ``{}``, and the targets that were asked for."""
    targets: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            targets.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """Say nothing of handshakes that fail."""

    with Server(("127.0.0.1", 0), Answer) as server:
        if context:
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}", targets
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1, signed by itself alone, with its key in the same file."""
    file = tmp_path_factory.mktemp("certificate") / "loopback.pem"
    file.write_bytes(b"".join(own_certificate("127.0.0.1")))
    return file


@pytest.fixture(params=[False, True], ids=["any client", "known clients"])
def tls(request: pytest.FixtureRequest, certificate: Path) -> Iterator[tuple[str, bool]]:
    """A server by TLS, and whether it wants a certificate of its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    if request.param:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(certificate)
    with serving(context) as (url, _):
        yield url, request.param


def test_a_server_that_nobody_has_signed_is_not_trusted(ask: Ask, tls: tuple[str, bool]) -> None:
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(tls[0], Network())


@pytest.mark.parametrize("how", ["file", "environment", "any"])
def test_who_is_trusted_can_be_said(
    ask: Ask, tls: tuple[str, bool], certificate: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    url, wants_certificate = tls
    verify = {"file": str(certificate), "environment": True, "any": False}[how]
    if how == "environment":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    pair = (str(certificate), str(certificate))

    ask(url, Network(verify=verify, certificate=pair))
    if wants_certificate:
        with pytest.raises(TransportError):
            ask(url, Network(verify=verify))
    else:
        ask(url, Network(verify=verify))


def test_a_folder_of_authorities_is_looked_into(
    ask: Ask, tls: tuple[str, bool], certificate: Path, tmp_path: Path
) -> None:
    with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED"):
        ask(tls[0], Network(verify=str(tmp_path)))


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_only_a_server_that_is_not_this_machine_is_asked_by_the_environments_proxy(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    with serving() as (proxy, proxied), serving() as (endpoint, asked):
        monkeypatch.setenv(variable.lower(), proxy)
        ask(endpoint, Network())
        ask("http://training.example:8470", Network())

    assert (proxied, asked) == ([f"http://training.example:8470{PATH}"], [PATH])


def test_no_proxy_names_servers_that_are_asked_directly(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (proxy, proxied):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", ".example")
        with pytest.raises(TransportError):
            ask("http://training.example:8470", Network())

    assert proxied == []


def test_a_proxy_that_is_named_is_asked_in_any_case(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as (proxy, proxied), serving() as (endpoint, asked):
        monkeypatch.setenv("no_proxy", "*")
        ask(endpoint, Network(proxy=proxy))

    assert (proxied, asked) == ([f"{endpoint}{PATH}"], [])


def test_another_api_of_a_project_is_reached_by_its_own_way(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving() as (vertex, _), serving(context) as (manager, asked):
        address = VertexAddress(
            project="p",
            regions=("us-central1",),
            endpoint=f"{vertex}/vertex",
            resource_manager_endpoint=manager,
        )
        with VertexClient(address, network=Network(verify=str(certificate))) as client:
            with pytest.raises(ServiceError, match="the number of project 'p' is not known"):
                client.project_number()  # the server answers {}
            assert not client.list_jobs().jobs

    assert asked == ["/v1/projects/p"]
