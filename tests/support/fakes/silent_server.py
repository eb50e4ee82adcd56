"""An engine that accepts and never answers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class SilentServer:
    """Takes connections at ``url`` and says nothing."""

    def __init__(self, path: Path) -> None:
        self.url = f"unix://{path}"
        self.connections: list[socket.socket] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(128)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self.connections.append(self._socket.accept()[0])

    def close(self) -> None:
        """Hang up on all."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for each in (self._socket, *self.connections):
            each.close()


@contextmanager
def run_silent_server(path: Path) -> Iterator[SilentServer]:
    """Serve at the socket file ``path``, of at most 107 characters, until the block ends."""
    server = SilentServer(path)
    try:
        yield server
    finally:
        server.close()
