"""Clients of the object store that say too little, too much, or nothing at all."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from object_store import server
from object_store.api import call, downloads
from tests.support import web
from tests.support.bed.store_thread import store_in_thread
from tests.support.speed import scaled
from tests.support.waiting import wait_until

SECONDS = 0.5
UPLOAD = "/upload/storage/v1/b/bkt/o?uploadType=media&name=a"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[httpx.Client]:
    with (
        store_in_thread(tmp_path) as url,
        web.client(base_url=url) as client,
    ):
        client.post("/storage/v1/b", json={"name": "bkt"}).raise_for_status()
        yield client


def connect(store: httpx.Client) -> socket.socket:
    url = urlsplit(str(store.base_url))
    return socket.create_connection((url.hostname, url.port), timeout=scaled(30))


def said(connection: socket.socket) -> bytes:
    """Return all that the store says until it ends the connection."""
    answer = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            answer += piece
    return answer


@pytest.mark.parametrize("begin", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-"])
def test_headers_that_do_not_end_end_the_connection(
    store: httpx.Client, begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_HEADER_SECONDS", SECONDS)
    with connect(store) as connection:
        connection.sendall(begin)

        assert said(connection) == b""


def test_headers_without_end_are_not_collected(store: httpx.Client) -> None:
    with connect(store) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            connection.sendall(b"x" * (64 << 20))

    assert store.get("/health").status_code == 200


def test_a_body_that_stalls_is_refused_and_nothing_is_stored(
    store: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "STALL_SECONDS", SECONDS)
    with connect(store) as connection:
        connection.sendall(
            f"POST {UPLOAD} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf".encode()
        )

        assert said(connection).startswith(b"HTTP/1.1 408 ")

    assert store.get("/storage/v1/b/bkt/o/a").status_code == 404
    assert list((tmp_path / "uploads").iterdir()) == []


def downloads_over(store: httpx.Client) -> list[str]:
    """Return the line of the metrics that changes when a download is over; none at first."""
    lines = store.get("/metrics").text.splitlines()
    return [line for line in lines if line.startswith("object_store_requests_total") and "by path" in line]


def test_a_reader_that_takes_nothing_is_cut_off(store: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 64 << 20  # more than the system's buffers hold
    store.post(UPLOAD, content=(bytes(1 << 20) for _ in range(64))).raise_for_status()

    monkeypatch.setattr(downloads, "STALL_SECONDS", SECONDS)
    before = downloads_over(store)
    with connect(store) as connection:
        connection.sendall(b"GET /bkt/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: downloads_over(store) != before, "the store has given up")

        assert len(said(connection)) < size

    assert store.get("/health").status_code == 200


def test_connections_are_bounded(store: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 3)
    monkeypatch.setattr(server, "_HEADER_SECONDS", scaled(60))
    others = [connect(store) for _ in range(8)]

    refused = [connection for connection in others[3:] if said(connection) == b""]

    assert len(refused) == 5
    for connection in others:
        connection.close()


def test_one_container_takes_only_its_share_of_the_connections(
    store: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_OF_ONE", 3)
    monkeypatch.setattr(server, "_HEADER_SECONDS", scaled(60))
    place = (store.base_url.host, store.base_url.port)
    containers = [
        [socket.create_connection(place, scaled(30), (address, 0)) for _ in range(3)]
        for address in ("127.1.0.1", "127.1.0.2")
    ]
    with socket.create_connection(place, scaled(30), ("127.1.0.1", 0)) as refused:
        assert said(refused) == b""

    persons = [connect(store) for _ in range(5)]
    assert store.get("/health").status_code == 200
    for connection in (*persons, *containers[0], *containers[1]):
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.close()


BEGIN = "/upload/storage/v1/b/{}/o?uploadType=resumable&name=o"


@pytest.mark.parametrize(
    ("bucket", "status"), [("bkt", 200), ("no-such-bucket", 404)], ids=["sent again", "refused"]
)
def test_the_answer_to_a_body_that_is_not_needed_comes_before_the_end_of_the_connection(
    store: httpx.Client, bucket: str, status: int
) -> None:
    """A server that closes with unread bytes resets the connection; the answer is lost with it."""
    body = os.urandom(4 << 20)
    url = urlsplit(store.post(BEGIN.format("bkt")).headers["location"])
    store.put(f"{url.path}?{url.query}", content=body).raise_for_status()
    target = f"{url.path}?{url.query}" if bucket == "bkt" else UPLOAD.replace("bkt", bucket)
    method = "PUT" if bucket == "bkt" else "POST"

    with connect(store) as connection:
        connection.sendall(
            f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
        )
        time.sleep(SECONDS / 2)  # the store could have answered
        connection.sendall(body)

        assert said(connection).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_body_without_end_that_is_refused_is_not_read_for_ever(store: httpx.Client) -> None:
    head = f"POST {UPLOAD.replace('bkt', 'no-such-bucket')} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Connection: close\r\nContent-Length: {1 << 40}\r\n\r\n"
    with connect(store) as connection, pytest.raises(OSError, match=r"reset|Broken pipe"):
        connection.sendall(head.encode() + bytes(128 << 20))
