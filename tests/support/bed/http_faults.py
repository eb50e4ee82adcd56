"""A proxy in front of an HTTP server that refuses, cuts and stalls some requests."""

from __future__ import annotations

import selectors
import socket
import struct
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

from tests.support.speed import scaled

_CHUNK = 65536
_NOTICE_SECONDS = 0.1
#: SO_LINGER, on and for no time: the close sends RST instead of FIN (socket(7)).
_NO_LINGER = struct.pack("ii", 1, 0)
_UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\nX-From: proxy\r\n\r\n"
)


class Harm(StrEnum):
    """What is done to one request."""

    REFUSE = "refuse"  #: 503, and the server never sees it
    CUT_UPLOAD = "cut the upload"  #: the client is reset after so many bytes of the request
    CUT_ANSWER = "cut the answer"  #: the client is reset after so many bytes of the answer
    STALL = "stall"  #: so many bytes of the answer, and nothing more; the client closes


@dataclass(slots=True)
class Rule:
    """
    What is done to the next requests that fit.

    :param start: how the request line begins, e.g. ``GET /download``.
    :param times: requests left.
    :param after_bytes: headers included.
    """

    harm: Harm
    start: str
    times: int = 1
    after_bytes: int = 0


class HttpFaults:
    """
    Passes connections to a port of loopback on, one request each, within a ``with`` block.

    Clients connect anew for each request: its headers get ``Connection: close``.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._rules: list[Rule] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        #: The request lines that came.
        self.seen: list[str] = []

    def __enter__(self) -> HttpFaults:
        self._listener.settimeout(_NOTICE_SECONDS)
        self._threads.append(threading.Thread(target=self._accept))
        self._threads[0].start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def harm(self, rule: Rule) -> None:
        """Add a rule."""
        with self._lock:
            self._rules.append(rule)

    def _accept(self) -> None:
        with self._listener:
            while not self._stopping.is_set():
                with suppress(TimeoutError):
                    client, _ = self._listener.accept()
                    thread = threading.Thread(target=self._serve, args=(client,))
                    self._threads.append(thread)
                    thread.start()

    def _serve(self, client: socket.socket) -> None:
        with closing(client), suppress(OSError):
            client.settimeout(_NOTICE_SECONDS)
            head, body = self._head(client)
            if not head:
                return
            rule = self._rule_for(head)
            if rule is not None and rule.harm is Harm.REFUSE:
                client.sendall(_UNAVAILABLE)
                # Closing with unread bytes would send a reset.
                client.shutdown(socket.SHUT_WR)
                while self._receive(client):
                    pass
                return
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                server.sendall(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
                self._exchange(client, server, rule, len(head) + len(body))

    def _head(self, client: socket.socket) -> tuple[bytes, bytes]:
        """Return the headers without ``Connection``, and what came of the body."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self._receive(client)
            if not piece:
                return b"", b""
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        return b"\r\n".join(lines) + b"\r\n\r\n", body

    def _rule_for(self, head: bytes) -> Rule | None:
        line = head.partition(b"\r\n")[0].decode("latin-1")
        with self._lock:
            self.seen.append(line)
            for rule in self._rules:
                if rule.times and line.startswith(rule.start):
                    rule.times -= 1
                    return rule
        return None

    def _exchange(self, client: socket.socket, server: socket.socket, rule: Rule | None, sent: int) -> None:
        """Pass bytes on both ways until one side ends, or the rule does."""
        left = rule.after_bytes if rule else 0
        client.settimeout(scaled(60))  # also for what it is sent, and it may be slow to read
        harmed = None if rule is None else client if rule.harm is Harm.CUT_UPLOAD else server
        left -= sent if harmed is client else 0
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while not self._stopping.is_set():
                for key, _ in selector.select(_NOTICE_SECONDS):
                    source, sink = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    piece = source.recv(_CHUNK if source is not harmed else min(_CHUNK, max(left, 0)))
                    left -= len(piece) if source is harmed else 0
                    sink.sendall(piece)
                    if source is harmed and left <= 0:
                        client.settimeout(_NOTICE_SECONDS)
                        while rule is not None and rule.harm is Harm.STALL and self._receive(client):
                            pass
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                        return
                    if not piece:
                        return

    def _receive(self, source: socket.socket) -> bytes:
        """Return what comes next; empty: the end, of the connection or of this proxy."""
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                return source.recv(_CHUNK)
        return b""
