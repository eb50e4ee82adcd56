"""
The limit of a request's body: an ASGI middleware.

A body is read here, as far as its limit, so that nothing parses or stores one that is too long; the app gets
it in one piece. The answer is that of Google's front ends: 400 INVALID_ARGUMENT, "Request payload size
exceeds the limit: 10485760 bytes."
"""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from training_service.api.errors import error_response

KIB = 1024
#: A job, a policy, a search for the jobs of many DAGs.
DEFAULT_LIMIT = 1024 * KIB
#: What has short bodies. A filter of 20,000 characters takes at most 240,000 bytes: 12 for each that JSON
#: writes as two escapes.
_LIMITS = (
    (re.compile(r"/v2/entries:list"), 256 * KIB),
    (re.compile(r"(/vertex)?/v1/.*:(cancel|wait|getIamPolicy|testIamPermissions)"), 64 * KIB),
)


def body_limit(path: str) -> int:
    """Return how many bytes the body of a request to ``path`` may have. Pure."""
    return next((limit for pattern, limit in _LIMITS if pattern.fullmatch(path)), DEFAULT_LIMIT)


class BodyLimit:
    """Refuses a body that is too long: by its Content-Length, else when it passes the limit."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = body_limit(scope["path"])
        declared = _content_length(scope)
        first = None if declared > limit else await _read(receive, limit)
        if first is None:
            got = f"a Content-Length of {declared}" if declared > limit else "more"
            await _too_long(limit, got)(scope, receive, send)
            return
        await self._app(scope, _after(first, receive), send)


async def _read(receive: Receive, limit: int) -> Message | None:
    """
    Return the body as one message, unfinished where the client went away.

    ``None``: it is longer than ``limit``.
    """
    body = bytearray()
    is_whole = False
    while not is_whole:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if len(body) > limit:
            return None
        is_whole = not message.get("more_body", False)
    return {"type": "http.request", "body": bytes(body), "more_body": not is_whole}


def _after(first: Message, receive: Receive) -> Receive:
    """Return ``receive`` with ``first`` before its messages."""
    waiting = [first]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _content_length(scope: Scope) -> int:
    """Return how long the request says that its body is; 0: it does not, or not readably."""
    values = [value for name, value in scope["headers"] if name == b"content-length"]
    # Bytes are digits in ASCII alone; 18 of them are beyond any limit.
    return int(values[0][:18]) if values and values[0].isdigit() else 0


def _too_long(limit: int, got: str) -> ASGIApp:
    message = f"Request payload size exceeds the limit: {limit} bytes; got {got}. Send a shorter body."
    return error_response(400, message)
