"""The proxy does to a connection what each fault says."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.waiting import wait_until


@pytest.fixture
def proxy() -> Iterator[FaultyProxy]:
    """A proxy before a server that echoes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        with FaultyProxy(server.getsockname()) as proxy:
            yield proxy


def _echo(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_echo_one, args=(server.accept()[0],), daemon=True).start()


def _echo_one(client: socket.socket) -> None:
    with client, suppress(OSError):
        while data := client.recv(100):
            client.sendall(data)


def _connect(proxy: FaultyProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=60)


def _says(client: socket.socket, word: bytes) -> bool:
    client.sendall(word)
    return client.recv(100) == word


@pytest.mark.parametrize("fault", [None, Fault.LATENCY])
def test_bytes_go_both_ways(proxy: FaultyProxy, fault: Fault | None) -> None:
    if fault:
        proxy.suffer(fault)

    with _connect(proxy) as client:
        assert _says(client, b"hello")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""


@pytest.mark.parametrize("is_open_before", [True, False])
def test_a_connection_is_reset(proxy: FaultyProxy, is_open_before: bool) -> None:
    with _connect(proxy) if is_open_before else socket.socket() as client:
        assert not is_open_before or _says(client, b"hello")

        proxy.suffer(Fault.RESET)

        with pytest.raises(ConnectionResetError):
            _wait_for_end(proxy, client, is_open_before)


def _wait_for_end(proxy: FaultyProxy, client: socket.socket, is_open: bool) -> bytes:
    if is_open:
        return client.recv(100)
    with _connect(proxy) as late:
        return late.recv(100)


@pytest.mark.extended
def test_a_connection_is_closed_without_an_answer(proxy: FaultyProxy) -> None:
    proxy.suffer(Fault.SLOW_CLOSE)

    with _connect(proxy) as client:
        client.sendall(b"hello")
        with suppress(ConnectionResetError):  # what was never read makes the close a reset
            assert client.recv(100) == b""


def test_what_is_half_open_stays_so_and_new_connections_work_again(proxy: FaultyProxy) -> None:
    with _connect(proxy) as old:
        assert _says(old, b"hello")
        proxy.suffer(Fault.HALF_OPEN)
        with _connect(proxy) as silent:
            wait_until(lambda: proxy.connections == 2, "the proxy has taken the second connection")
            proxy.heal()

            with _connect(proxy) as new:
                assert _says(new, b"hello")
            for client in (old, silent):
                client.settimeout(0.5)
                client.sendall(b"hello")
                with pytest.raises(TimeoutError):
                    client.recv(100)
