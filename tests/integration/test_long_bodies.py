"""A body that is too long, comes slowly or cannot be read harms its sender alone."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from tests.integration.live_service import IMAGE, run_service
from tests.support import web
from tests.support.speed import scaled

PARENT = "/v1/projects/demo-project/jobs"
_HEAD = (
    f"POST {PARENT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
).encode()


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of one service for all tests."""
    with (
        run_service(tmp_path_factory.mktemp("service")) as service,
        web.client(base_url=service.endpoint) as http,
    ):
        yield http


def connected(http: httpx.Client) -> socket.socket:
    """Return a connection to the service, on which a test writes HTTP by hand."""
    address = urlsplit(str(http.base_url))
    return socket.create_connection((str(address.hostname), address.port or 80), timeout=scaled(30))


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"jobId": ' + b"9" * 5000 + b"}", b'\xff{"jobId": "j"}', b"{", b"\x00"]
)
def test_a_body_that_is_no_json_is_refused_with_the_rule(http: httpx.Client, body: bytes) -> None:
    response = http.post(PARENT, content=body, headers={"content-type": "application/json"})

    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert "the body cannot be read; it must be JSON" in message or "JSON decode error" in message


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_job_of_twenty_megabytes_is_refused(http: httpx.Client, is_chunked: bool) -> None:
    part = b" " * 65_536

    def parts() -> Iterator[bytes]:
        yield b'{"jobId": "large'
        yield from (part for _ in range(320))

    content = parts() if is_chunked else b"".join(parts())
    response = http.post(PARENT, content=content, headers={"content-type": "application/json"})

    assert (response.status_code, response.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert response.json()["error"]["message"].startswith(
        "Request payload size exceeds the limit: 1048576 bytes"
    )


def test_an_endless_body_is_refused_when_it_passes_the_limit(http: httpx.Client) -> None:
    with connected(http) as stream:
        stream.sendall(_HEAD)
        for _ in range(17):  # 64 KiB each: more than 1 MiB, and no end
            stream.sendall(b"10000\r\n" + b" " * 65_536 + b"\r\n")

        assert stream.recv(12) == b"HTTP/1.1 400"


def test_a_slow_body_is_waited_for_and_others_are_served_meanwhile(http: httpx.Client) -> None:
    body = json.dumps({"jobId": "slow", "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}).encode()
    with connected(http) as stream:
        stream.sendall(_HEAD)
        for place in range(len(body)):
            stream.sendall(b"1\r\n" + body[place : place + 1] + b"\r\n")
            if place == len(body) // 2:
                assert http.get(PARENT).status_code == 200
        stream.sendall(b"0\r\n\r\n")

        assert stream.recv(12) == b"HTTP/1.1 200"
