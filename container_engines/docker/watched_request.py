"""
Requests to a Docker Engine that can be cancelled: a pull, and a look-up in a registry.

docker-py waits for the response headers without a timeout, and the engine sends them only when its registry
has answered. Here each request opens its own connection. A cancel shuts the socket down. The engine then ends
this request, and continues those of others for the same image.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from docker.auth import encode_header
from docker.utils import parse_repository_tag

from container_engines.docker.client import DockerConnection
from container_engines.docker.error_table import Asked
from container_engines.docker.errors import engine_error, engine_errors, without_errors
from container_engines.pull_watch import PullWatch
from training_api.errors import EngineUnavailable

#: Longer than any message of a pull.
_MAX_LINE_BYTES = 1 << 20
_PIECE_BYTES = 1 << 16


def pull(connection: DockerConnection, name: str, login: Mapping[str, str], watch: PullWatch) -> None:
    """
    Pull the newest image ``name``; blocks.

    :param login: as in ``DockerDriver.pull``.
    :raises PullAbandoned: the owner of ``watch`` gave the pull up.
    :raises RegistryUnavailable: it took too long, or the registry did not answer.
    """
    repository, tag = parse_repository_tag(name)
    query = urlencode({"fromImage": repository, "tag": tag or "latest"})
    doing = f"pull {name}"
    with _answer(connection, "POST", f"/images/create?{query}", login, watch, doing) as lines:
        for _ in without_errors((json.loads(line) for line in lines if line.strip()), doing):
            pass


def look_up(
    connection: DockerConnection, name: str, login: Mapping[str, str], watch: PullWatch
) -> dict[str, Any]:
    """Return what the registry says of ``name``, without a pull; raises as ``pull``."""
    path = f"/distribution/{quote(name, safe='/:')}/json"
    with _answer(connection, "GET", path, login, watch, f"look up {name}") as lines:
        found: dict[str, Any] = json.loads(b"\n".join(lines))
    return found


@contextmanager
def _answer(
    connection: DockerConnection,
    method: str,
    path: str,
    login: Mapping[str, str],
    watch: PullWatch,
    doing: str,
) -> Iterator[Iterator[bytes]]:
    """Yield the lines of the engine's answer; only within the block."""
    version = connection.client.api_version
    # Without the header the engine would use any login that it finds.
    headers = {"X-Registry-Auth": encode_header(dict(login)).decode(), "Content-Length": "0"}
    with closing(connection.dial()) as http_connection:
        with engine_errors(doing):
            http_connection.connect()
        opened = http_connection.sock
        try:
            with watch.waiting(lambda: _shut_down(opened)), closing(opened):
                _limit(opened, watch)
                http_connection.request(method, f"/v{version}{path}", headers=headers)
                with http_connection.getresponse() as response:
                    watch.progress()
                    _check(response, doing)
                    yield _lines(response, opened, watch)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if watch.cancelled or isinstance(error, TimeoutError):
                raise watch.error(doing) from error
            raise EngineUnavailable(f"the Docker Engine did not answer to {doing!r}: {error}") from error


def _lines(response: http.client.HTTPResponse, opened: socket.socket, watch: PullWatch) -> Iterator[bytes]:
    """
    Yield whole lines.

    :raises http.client.IncompleteRead: the answer was cut off, which ``readline`` would hide.
    """
    begun = b""
    while piece := response.read1(_PIECE_BYTES):
        watch.progress()
        *whole, begun = (begun + piece).split(b"\n")
        yield from whole
        if len(begun) > _MAX_LINE_BYTES:
            raise http.client.LineTooLong("answer")
        _limit(opened, watch)
    if watch.cancelled:
        # A connection that was shut down may look like one that has ended.
        raise ConnectionAbortedError
    yield begun


def _limit(opened: socket.socket, watch: PullWatch) -> None:
    """
    Give the socket the time that the pull has left.

    :raises TimeoutError: none is left. A timeout of 0 would not wait, and look like the end of the answer.
    """
    left = watch.seconds_left
    if not left:
        raise TimeoutError
    opened.settimeout(left)


def _check(response: http.client.HTTPResponse, doing: str) -> None:
    if response.status < HTTPStatus.BAD_REQUEST:
        return
    text = response.read(_MAX_LINE_BYTES).decode(errors="replace")
    with suppress(ValueError, AttributeError):
        text = str(json.loads(text).get("message") or text)
    raise engine_error(doing, text, status=response.status, asked=Asked.REGISTRY)


def _shut_down(opened: socket.socket) -> None:
    # It may have just ended: nothing waits for it then.
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
