"""
Asks an ASGI app in this process.

httpx's transport for that takes URLs, and a filter may be longer than those may be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.types import ASGIApp, Message, Scope

from training_service.grpc_api.transcoding import RestRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """What the app answered; ``is_whole``: to the end."""

    status: int
    body: bytes
    is_whole: bool


async def ask(
    app: ASGIApp,
    request: RestRequest,
    headers: Mapping[str, str],
    client: tuple[str, int],
    state: dict[str, Any],
) -> Answer:
    """
    Send ``request`` to ``app``.

    :param client: address and port of who asks.
    :param state: what the app finds in ``request.state``.
    :raises Exception: what the app raised before it answered.
    """
    status, body, is_whole = 0, bytearray(), False
    waiting: list[Message] = [{"type": "http.request", "body": request.body, "more_body": False}]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        # Nobody goes away: the one who asks gets the answer, or it is not needed.
        return await asyncio.Future()

    async def send(message: Message) -> None:
        nonlocal status, is_whole
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))
            is_whole = not message.get("more_body", False)

    try:
        await app(_scope(request, headers, client, state), receive, send)
    except Exception:
        # An app answers 500 and raises what it was about, for its server's log.
        if not is_whole:
            raise
    return Answer(status, bytes(body), is_whole)


def _scope(
    request: RestRequest, headers: Mapping[str, str], client: tuple[str, int], state: dict[str, Any]
) -> Scope:
    named = {"content-length": str(len(request.body)), "content-type": "application/json", **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "2",
        "method": request.verb,
        "scheme": "http",
        "path": request.path,
        "raw_path": quote(request.path, safe="/:").encode(),
        "query_string": urlencode(request.query).encode(),
        "root_path": "",
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in named.items()],
        "client": client,
        "server": None,
        "state": state,
    }
