"""A proxy in front of a server that does to a client what a bad network does."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType

_CHUNK = 65536
#: How soon a connection notices a fault that was switched on, and its proxy's end.
_NOTICE_SECONDS = 0.1
_LATENCY_SECONDS = 0.3
_SLOW_CLOSE_SECONDS = 2.0
#: SO_LINGER, on and for no time: the close sends RST instead of FIN (socket(7)).
_NO_LINGER = struct.pack("ii", 1, 0)


class Fault(StrEnum):
    """What goes wrong between a client and its server."""

    LATENCY = "latency"  #: each piece comes later
    RESET = "reset"  #: connections are reset, the new ones at once
    HALF_OPEN = "half-open"  #: nothing comes any more, and nobody closes; not even after the fault
    SLOW_CLOSE = "slow close"  #: nothing comes any more, and seconds later the connection is closed


class FaultyProxy:
    """
    Connects clients of a free port of loopback to ``target``, within a ``with`` block.

    A thread a connection: for a few dozen of them.

    :param target: ``(host, port)``, or the path of a unix socket.
    """

    def __init__(self, target: tuple[str, int] | Path) -> None:
        self._target = target
        self._fault: Fault | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> FaultyProxy:
        self._listener.settimeout(_NOTICE_SECONDS)
        threading.Thread(target=self._accept, name=f"proxy-{self.port}", daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stopping.set()

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        with self._lock:
            return len(self._links)

    def suffer(self, fault: Fault) -> None:
        """Switch ``fault`` on, for connections that are open and for new ones."""
        with self._lock:
            self._fault = fault
            for link in self._links:
                link.fault = fault

    def heal(self) -> None:
        """Have new connections work again, and late ones be in time; what is half-open stays so."""
        with self._lock:
            self._fault = None
            for link in self._links:
                if link.fault is Fault.LATENCY:
                    link.fault = None

    def _accept(self) -> None:
        with self._listener:
            while not self._stopping.is_set():
                try:
                    client, _ = self._listener.accept()
                except TimeoutError:
                    continue
                with self._lock:
                    link = _Link(client, self._fault, self._stopping)
                    self._links.append(link)
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: _Link) -> None:
        with suppress(OSError):
            link.run(self._target)
        with self._lock:
            self._links.remove(link)


class _Link:
    """One client's connection."""

    def __init__(self, client: socket.socket, fault: Fault | None, stopping: threading.Event) -> None:
        self.fault = fault
        self._client = client
        self._stopping = stopping

    def run(self, target: tuple[str, int] | Path) -> None:
        """Carry bytes both ways until both sides have closed, or a fault ends it."""
        with self._client as client:
            if self.fault in (None, Fault.LATENCY):
                with _connected(target) as server, selectors.DefaultSelector() as selector:
                    selector.register(client, selectors.EVENT_READ, server)
                    selector.register(server, selectors.EVENT_READ, client)
                    self._carry(selector)
                    self._end(client, server)
            else:
                self._end(client)

    def _carry(self, selector: selectors.BaseSelector) -> None:
        while selector.get_map() and not self._stopping.is_set():
            ready = selector.select(_NOTICE_SECONDS)
            if self.fault not in (None, Fault.LATENCY):
                return
            for key, _ in ready:
                source, sink = key.fileobj, key.data
                assert isinstance(source, socket.socket)
                data = source.recv(_CHUNK)
                if self.fault is Fault.LATENCY:
                    self._stopping.wait(_LATENCY_SECONDS)
                if data:
                    sink.sendall(data)
                else:
                    selector.unregister(source)
                    sink.shutdown(socket.SHUT_WR)

    def _end(self, *ends: socket.socket) -> None:
        match self.fault:
            case Fault.RESET:
                for end in ends:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            case Fault.SLOW_CLOSE:
                self._stopping.wait(_SLOW_CLOSE_SECONDS)
            case Fault.HALF_OPEN:
                self._stopping.wait()


def _connected(target: tuple[str, int] | Path) -> socket.socket:
    if isinstance(target, tuple):
        return socket.create_connection(target)
    server = socket.socket(socket.AF_UNIX)
    server.connect(str(target))
    return server
