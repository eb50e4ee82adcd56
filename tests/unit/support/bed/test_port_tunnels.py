"""What goes through a tunnel arrives, and a broken connection is no error."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.bed import port_tunnels as module


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Ports of a tunnel within this namespace: its own, and the one that it leads to."""
    listener = socket.create_server(("127.0.0.1", 0))
    target = socket.create_server(("127.0.0.1", 0))
    port = target.getsockname()[1]
    monkeypatch.setattr(module, "_listeners_in", lambda namespace, ports: [(port, listener)])

    def answer() -> None:
        with target:
            peer, _ = target.accept()
            with peer, peer.makefile("rb") as file:
                peer.sendall(file.read()[::-1])
            peer, _ = target.accept()
            peer.close()

    threading.Thread(target=answer, daemon=True).start()
    return listener.getsockname()[1], port


def test_bytes_pass_in_both_directions_until_each_end(here: tuple[int, int]) -> None:
    with module.port_tunnels(Path("/proc/self/ns/net"), [here[1]]):
        with closing(socket.create_connection(("127.0.0.1", here[0]), timeout=30)) as client:
            client.sendall(b"abc")
            client.shutdown(socket.SHUT_WR)
            assert client.makefile("rb").read() == b"cba"
        with closing(socket.create_connection(("127.0.0.1", here[0]), timeout=30)) as client:
            assert client.makefile("rb").read() == b""
