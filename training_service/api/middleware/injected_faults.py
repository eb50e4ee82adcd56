"""
Faults of calls: an ASGI middleware around the whole app.

No code within the app knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from training_service.api.errors import error_response
from training_service.faults.board import FaultBoard
from training_service.faults.rules import Call, Fault, FaultKind, call_of

logger = structlog.get_logger(__name__)


class FaultyCalls:
    """Answers calls with the faults of ``board``, or lets them through."""

    def __init__(self, app: ASGIApp, board: FaultBoard) -> None:
        self._app = app
        self._board = board

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        call = call_of(scope["method"], scope["path"]) if scope["type"] == "http" else None
        faults = {fault.kind: fault for fault in self._taken(call)}
        if delay := faults.get(FaultKind.DELAY):
            await asyncio.sleep(delay.seconds or 0.0)
        if error := faults.get(FaultKind.ERROR):
            await _answer(error)(scope, receive, send)
        elif FaultKind.DROP in faults:
            await self._app(scope, receive, _nowhere)
            await _break_off(send)
        else:
            await self._app(scope, receive, send)

    def _taken(self, call: Call | None) -> Sequence[Fault]:
        faults = self._board.take_for_call(call) if call else []
        for fault in faults:
            logger.info("fault", kind=fault.kind.value, method=call and call.method, job=call and call.job_id)
        return faults


def _answer(fault: Fault) -> ASGIApp:
    code = fault.code or 503
    response = error_response(code, f"This error was asked for: fault injection, kind error, code {code}.")
    if fault.retry_after_seconds is not None:
        response.headers["Retry-After"] = f"{fault.retry_after_seconds:g}"
    return response


async def _nowhere(_: Message) -> None:
    """Take the answer, which nobody gets."""


async def _break_off(send: Send) -> None:
    """Begin an answer and stop: the server then closes the connection within the answer."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{", "more_body": True})
