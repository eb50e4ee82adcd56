"""An agent knows its service by the authority that it was given, and by no other."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import httpx
import pytest

from local_stack.machines.authority import AuthorityFiles, ensure_certificate
from tests.support.speed import scaled
from training_service.agent.service_client import ServiceClient
from training_service.intake.metric_stream import SinkUnavailable

ADDRESS = IPv4Address("127.0.0.1")


class Answer(BaseHTTPRequestHandler):
    """A service without orders, of a newer version than the agent."""

    def do_POST(self) -> None:
        body = b'{"version": "1", "streams": [], "remove": [], "newer": {"any": ["thing"]}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFiles:
    return ensure_certificate(tmp_path / "own", ADDRESS)


@pytest.fixture
def url(files: AuthorityFiles) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with ThreadingHTTPServer((str(ADDRESS), 0), Answer) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://{ADDRESS}:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers take long: they come from threads of a busy machine."""
    monkeypatch.setattr(ServiceClient._post, "__defaults__", (httpx.Timeout(scaled(60)),))


def sync(url: str, authority: str) -> str:
    client = ServiceClient(url, "token", "node", authority=authority)
    try:
        return client.sync(seen="", opened=[], drained=[], jobs=[]).version
    finally:
        client.close()


def test_it_asks_the_service_of_its_authority(url: str, files: AuthorityFiles) -> None:
    assert sync(url, str(files.authority)) == "1"


def test_it_asks_no_service_of_another(url: str, tmp_path: Path) -> None:
    other = ensure_certificate(tmp_path / "other", ADDRESS)

    for authority in (str(other.authority), ""):
        with pytest.raises(SinkUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            sync(url, authority)
