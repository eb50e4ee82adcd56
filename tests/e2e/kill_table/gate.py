"""
A proxy that holds back the first answer to chosen requests.

It keeps a task in the middle of a call.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from contextlib import suppress

from tests.support.ports import reserve_port

_CHUNK = 65536
_LOOK_SECONDS = 0.2
#: Shorter than the patience of any client here (30 s without a byte).
_BYTE_SECONDS = 10.0


class Gate:
    """
    Forwards TCP connections; an answer to a request that matches is held, once for each key.

    Whatever end goes away meanwhile takes the other with it: the answer is then lost, as it is on a real
    network.

    :param upstream: port on loopback.
    :param request: what a held request begins with, like ``POST /v1/projects/[^ ]+/jobs ``.
    :param key: its first group, found anywhere in the request, is the key.
    """

    def __init__(self, upstream: int, request: str, key: str) -> None:
        self._upstream = upstream
        self._request = re.compile(request.encode())
        self._key = re.compile(key.encode())
        self._lock = threading.Lock()
        self._seen: set[str] = set()
        self._held: dict[str, threading.Event] = {}
        self._listener = socket.create_server(("127.0.0.1", reserve_port()))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def is_held(self, key: str) -> bool:
        """Whether the answer for ``key`` is being held now."""
        with self._lock:
            return key in self._held

    def release(self, key: str) -> None:
        """Let the answer go, if it is held."""
        with self._lock:
            event = self._held.get(key)
        if event is not None:
            event.set()

    def close(self) -> None:
        """Take no more connections, and let all answers go."""
        self._listener.close()
        with self._lock:
            events = list(self._held.values())
        for event in events:
            event.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(("127.0.0.1", self._upstream))
            except OSError:
                client.close()
                continue
            _Exchange(self, client, server).start()

    def claim(self, request: bytes) -> str | None:
        """Return the key under which the answer to ``request`` is held; ``None`` if it is not."""
        found = self._key.search(request) if self._request.match(request) else None
        if found is None:
            return None
        key = found[1].decode()
        with self._lock:
            if key in self._seen:
                return None
            self._seen.add(key)
            self._held[key] = threading.Event()
        return key

    def wait_for_release(self, key: str, seconds: float) -> bool:
        """Whether the answer may go; waits for at most so long."""
        with self._lock:
            event = self._held[key]
        return event.wait(seconds)

    def forget(self, key: str) -> None:
        """Hold the answer no longer."""
        with self._lock:
            del self._held[key]


class _Exchange:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, gate: Gate, client: socket.socket, server: socket.socket) -> None:
        self._gate = gate
        self._client = client
        self._server = server
        self._server_address: tuple[str, int] = server.getpeername()
        self._request = b""
        self._is_answered = True
        self._is_client_gone = False

    def start(self) -> None:
        for pump in (self._forward_requests, self._forward_answers):
            threading.Thread(target=pump, daemon=True).start()

    def is_broken(self) -> bool:
        """
        Tell whether the client has closed its connection, or the server is gone.

        A live server may close an idle connection.
        """
        if self._is_client_gone:
            return True
        try:
            socket.create_connection(self._server_address).close()
        except OSError:
            return True
        return False

    def _forward_requests(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(_CHUNK):
                self._request = data if self._is_answered else self._request + data
                self._is_answered = False
                self._server.sendall(data)
        self._is_client_gone = True
        self._close()

    def _forward_answers(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(_CHUNK):
                key = None if self._is_answered else self._gate.claim(self._request)
                if key is not None:
                    data = self._hold(key, data)
                self._is_answered = True
                self._client.sendall(data)
        self._close()

    def _hold(self, key: str, answer: bytes) -> bytes:
        """
        Return the rest of ``answer`` once it may be sent.

        A byte now and then keeps the client from giving up.

        :raises OSError: an end went away.
        """
        try:
            next_byte_at = time.monotonic() + _BYTE_SECONDS
            while not self._gate.wait_for_release(key, _LOOK_SECONDS):
                if self.is_broken():
                    raise OSError("an end of the connection went away")
                if time.monotonic() > next_byte_at and len(answer) > 1:
                    self._client.sendall(answer[:1])
                    answer = answer[1:]
                    next_byte_at = time.monotonic() + _BYTE_SECONDS
            return answer
        finally:
            self._gate.forget(key)

    def _close(self) -> None:
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
