"""What goes through a tunnel arrives, and a broken connection is no error."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.bed import port_tunnels as module


@contextmanager
def client_of(
    answer: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """Connect through a tunnel within this namespace to a server that answers each connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    target = socket.create_server(("127.0.0.1", 0))
    port = target.getsockname()[1]
    monkeypatch.setattr(module, "_listeners_in", lambda namespace, ports: [(port, listener)])

    def serve() -> None:
        while True:
            try:
                peer, _ = target.accept()
            except OSError:
                return
            with peer:
                answer(peer)

    server = threading.Thread(target=serve)
    server.start()
    try:
        with (
            module.port_tunnels(Path("/proc/self/ns/net"), [port]),
            closing(socket.create_connection(listener.getsockname(), timeout=30)) as client,
        ):
            yield client
    finally:
        target.shutdown(socket.SHUT_RDWR)
        target.close()
        server.join()


def all_of(peer: socket.socket) -> bytes:
    with peer.makefile("rb") as file:
        return file.read()


def test_bytes_pass_in_both_directions_until_each_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(lambda peer: peer.sendall(all_of(peer)[::-1]), monkeypatch) as client:
        client.sendall(b"abc")
        client.shutdown(socket.SHUT_WR)
        assert all_of(client) == b"cba"


def test_a_server_may_close_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(lambda peer: None, monkeypatch) as client:
        assert all_of(client) == b""


@pytest.mark.extended
def test_garbage_collection_leaves_a_half_closed_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio refers to readers weakly: a handler that waits for one only can be collected."""
    ended, collected = threading.Event(), threading.Event()

    def answer_late(peer: socket.socket) -> None:
        all_of(peer)
        ended.set()
        collected.wait(60)
        peer.sendall(b"late")

    with client_of(answer_late, monkeypatch) as client:
        client.shutdown(socket.SHUT_WR)
        assert ended.wait(60)
        for _ in range(10):  # until the tunnel, too, is done with that side
            time.sleep(0.05)
            gc.collect()
        collected.set()
        assert all_of(client) == b"late"
