"""A unix socket in front of another one; while it is paused, the network is cut."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CHUNK = 65536
_LOOK_SECONDS = 0.1


class PausedProxy:
    """Passes bytes on in both directions, for any number of connections, until :meth:`pause`."""

    def __init__(self, listener: socket.socket, target: Path) -> None:
        self._listener = listener
        self._target = target
        self._passing = threading.Event()
        self._passing.set()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def pause(self) -> None:
        """Pass nothing on; connections stay open."""
        self._passing.clear()

    def go_on(self) -> None:
        """Pass on what has come meanwhile, and all that follows."""
        self._passing.set()

    def close(self) -> None:
        """End all connections."""
        self._ended.set()
        self._passing.set()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while not self._ended.is_set():
            if _ready([self._listener]):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._pass, args=(client,))
                thread.start()
                self._threads.append(thread)

    def _pass(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(str(self._target))
            others = {client: server, server: client}
            while not self._ended.is_set():
                for ready in _ready(others):
                    self._passing.wait()
                    data = ready.recv(_CHUNK)
                    if not data:
                        return
                    others[ready].sendall(data)


def _ready(sockets: Iterable[socket.socket]) -> list[socket.socket]:
    """
    Return those that can be read, after a moment at most.

    Not by select(2), which takes no file above 1,024.
    """
    poll, by_file = select.poll(), {each.fileno(): each for each in sockets}
    for file in by_file:
        poll.register(file, select.POLLIN)
    return [by_file[file] for file, _ in poll.poll(_LOOK_SECONDS * 1000)]


@contextmanager
def paused_proxy(listen: Path, target: Path) -> Iterator[PausedProxy]:
    """Listen on the socket ``listen`` for the one at ``target`` until the block ends."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(listen))
        listener.listen()
        proxy = PausedProxy(listener, target)
        try:
            yield proxy
        finally:
            proxy.close()
