"""The metadata endpoint as a server: where it listens, and what containers are told of it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from fastapi import FastAPI

from tests.support import web
from tests.support.ports import reserve_port
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_service.metadata import server as module
from training_service.metadata.server import MetadataServer, metadata_environment


def test_the_server_listens_where_it_is_told_and_says_where_it_cannot() -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    server = MetadataServer(app, "127.0.0.1", 0)
    server.start()
    try:
        assert web.get(f"http://127.0.0.1:{server.port}/").json() == "here"
    finally:
        server.stop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            MetadataServer(app, "127.0.0.1", port).start()


def test_a_server_that_keeps_trying_listens_once_the_address_is_free() -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    port = reserve_port()
    with socket.create_server(("127.0.0.1", port)):
        server = MetadataServer(app, "127.0.0.1", port)
        server.keep_trying()
    server.keep_trying()
    server.keep_trying()
    try:
        assert web.get(f"http://127.0.0.1:{server.port}/").json() == "here"
    finally:
        server.stop()


@pytest.fixture
def here() -> Iterator[MetadataServer]:
    """A server that answers ``here``."""
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    server = MetadataServer(app, "127.0.0.1", 0)
    server.start()
    yield server
    server.stop()


def connect(server: MetadataServer, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), scaled(60), (source, 0))


def test_a_container_has_no_more_connections_than_its_share(
    here: MetadataServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CONNECTION_SECONDS", scaled(600))
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(here, "127.1.0.1")) for _ in range(3 * module.MOST_OF_ONE)]
        open_ones = list(silent)

        def close_lost() -> bool:
            for each in list(open_ones):
                if is_lost(each):
                    open_ones.remove(each)
            return len(open_ones) == module.MOST_OF_ONE

        wait_until(close_lost, "all connections but the container's share are closed")
        assert web.get(f"http://127.0.0.1:{here.port}/").json() == "here"  # of another address


def test_a_connection_ends_whatever_is_said_on_it(
    here: MetadataServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CONNECTION_SECONDS", 0.2)

    with connect(here) as silent, connect(here) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: is_lost(silent) and is_lost(slow), "both connections are closed")


def is_lost(connection: socket.socket) -> bool:
    """Tell whether the other end has closed the connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_a_server_can_be_stopped_before_it_was_started() -> None:
    MetadataServer(FastAPI(), "127.0.0.1", 0).stop()


def test_every_library_is_told_the_same_address() -> None:
    told = metadata_environment("172.17.0.1", 8471)

    assert set(told) == {"GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"}
    assert set(told.values()) == {"172.17.0.1:8471"}


def test_callers_come_by_the_named_interface_or_not_at_all() -> None:
    app = FastAPI()
    app.add_api_route("/", lambda: "here")
    server = MetadataServer(app, "127.0.0.1", 0, interface="lo")
    server.start()
    try:
        assert web.get(f"http://127.0.0.1:{server.port}/").json() == "here"
    finally:
        server.stop()
    with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1:0 of interface none0: No such device"):
        MetadataServer(app, "127.0.0.1", 0, interface="none0").start()
    with pytest.raises(OSError, match=r"cannot listen on nowhere\.invalid:0"):
        MetadataServer(app, "nowhere.invalid", 0).start()
