"""Requests as bytes on a socket, well formed or not, and their answers."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Literal

_SECONDS = 60.0
#: Of an answer, what is looked at.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """
    What is sent.

    :param is_torn: its length is not what its headers say; nothing can follow it on its connection.
    """

    method: str
    head: bytes
    body: bytes = b""
    is_torn: bool = False

    def __str__(self) -> str:
        body = repr(self.body[:300]) + ("..." if len(self.body) > 300 else "")
        return f"{self.head[:1500]!r} {body}"


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What came back.

    :param status: of HTTP; ``closed``: the server ended the connection without one; ``silent``: nothing came
        for a minute.
    """

    status: int | Literal["closed", "silent"]
    headers: dict[str, str]
    body: bytes = b""


class Wire:
    """One client of a server on loopback, which sends one request after the other."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, request: Request) -> Answer:
        """Send a request and return the answer."""
        if request.is_torn:
            self.close()
        # A server may end an idle connection at any time: its client then asks again.
        is_old = self._socket is not None
        answer = self._exchange(request)
        return self._exchange(request) if is_old and answer.status == "closed" else answer

    def _exchange(self, request: Request) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=_SECONDS)
        connection = self._socket
        response = HTTPResponse(connection, method=request.method)
        ends = True
        try:
            _send(connection, request)
            response.begin()
            body = response.read(_MOST_BYTES)
            ends = request.is_torn or response.will_close or not response.isclosed()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, body)
        except TimeoutError:
            return Answer("silent", {})
        except (OSError, HTTPException):
            return Answer("closed", {})
        finally:
            response.close()
            if ends:
                self.close()


def _send(connection: socket.socket, request: Request) -> None:
    try:
        connection.sendall(request.head + request.body)
        if request.is_torn:
            connection.shutdown(socket.SHUT_WR)
    except TimeoutError:
        raise
    except OSError:
        # The server has refused what it has not read yet; its answer may be here.
        return
