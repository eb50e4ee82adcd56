"""
Answers calls of gRPC by the app that serves REST.

A call becomes a request of REST within the process, so that it passes the same doors: token, permissions,
audit log, limit of bodies, injected faults, worker threads. What cannot be read is refused behind these
doors, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from training_api.errors import AccessDenied, InvalidRequest, TrainingError
from training_service.access.decision import Caller
from training_service.api.errors import note_bug
from training_service.api.middleware.gate import IDENTITY, identity_of
from training_service.api.vertex_v1.unserved import REFUSAL, NotServed
from training_service.grpc_api.in_process import ask
from training_service.grpc_api.methods import Method, method_of, path_of_unserved, refusal_of
from training_service.grpc_api.transcoding import RestRequest, RpcError, rest_request, rpc_answer, rpc_error
from training_service.telemetry.metrics import OTHER, Metrics

#: At the same time; each may hold a whole message.
MOST_CALLS = 100
#: From a call's begin to the end of its message, which is short.
READ_SECONDS = 30.0
#: What the gate goes by. gRPC for Python does not tell its handlers the name that was asked for.
_HEADERS = ("authorization", "origin", "sec-fetch-site")
_HOST = "127.0.0.1"
_DETAILS = "grpc-status-details-bin"
_CODES = {code.name: code.value[0] for code in grpc.StatusCode}
_FAILED = 400
#: Bytes of a message that takes at most half a millisecond; to wait for another thread takes a tenth.
_SHORT = 4096
#: Of short answers; together they take at most 4 MB.
_KEPT = 512

_Converted = TypeVar("_Converted")
#: Safe, as the answer has passed the doors before: it is only written in another form.
_kept_answer = lru_cache(_KEPT)(rpc_answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sender:
    """Who calls: address and port, what the gate goes by, and who that is."""

    address: tuple[str, int]
    headers: dict[str, str]
    identity: Caller | AccessDenied


class Calls(grpc.GenericRpcHandler):  # type: ignore[misc]
    """
    Answers every method, those that are not served with a refusal.

    :param identify: returns who sends an ``Authorization``, for the app, too; raises ``AccessDenied`` for one
        that the app will refuse, whatever the message is.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, identify: Callable[[str | None], Caller]) -> None:
        self._app = app
        self._metrics = metrics
        self._identify = identify
        self._running: set[asyncio.Task[bytes | RpcError]] = set()

    def service(self, details: Any) -> Any:
        """Return what answers the call of these ``details``."""
        # Messages stay bytes: gRPC's own reading of them would answer INTERNAL for what cannot be read. And
        # they are read here: before a unary handler gRPC waits for them for ever, from strangers, too.
        return grpc.stream_unary_rpc_method_handler(partial(self._serve, details.method))

    async def settle(self, seconds: float) -> None:
        """Wait until what was begun is done, and in the audit log."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def _serve(self, call: str, _: object, context: Any) -> bytes | RpcError:
        started, code = time.perf_counter(), grpc.StatusCode.CANCELLED
        try:
            sender = self._sender_of(context)
            sent = None if isinstance(sender.identity, AccessDenied) else await _read(context)
            answer = sent if isinstance(sent, RpcError) else await self._run(call, sent, sender)
            code = grpc.StatusCode.OK if isinstance(answer, bytes) else grpc.StatusCode[answer.status]
        finally:
            name = call.strip("/") if method_of(call) else OTHER
            self._metrics.grpc_requests.labels(name, code.name).observe(time.perf_counter() - started)
        if isinstance(answer, RpcError):
            trailers = ((_DETAILS, answer.details),) if answer.details else ()
            await context.abort(code, answer.message, trailers)
        return answer

    def _sender_of(self, context: Any) -> _Sender:
        """Return who calls; ``peer`` is like ``ipv4:127.0.0.1:50000`` and ``ipv6:%5B::1%5D:50000``."""
        address, _, port = unquote(context.peer()).partition(":")[2].rpartition(":")
        headers = {"host": _HOST}
        for name, value in context.invocation_metadata() or ():
            if name in _HEADERS and isinstance(value, str):
                headers.setdefault(name, value)
        return _Sender(
            address=(address.strip("[]"), int(port)) if port.isdecimal() else ("", 0),
            headers=headers,
            identity=identity_of(self._identify, headers.get("authorization")),
        )

    async def _run(self, call: str, sent: bytes | None, sender: _Sender) -> bytes | RpcError:
        # Those whose clients have gone count, too: what they began goes on.
        if len(self._running) >= MOST_CALLS:
            message = f"this service answers {MOST_CALLS} calls at once; try again later"
            return RpcError(status="RESOURCE_EXHAUSTED", message=message, details=b"")
        task = asyncio.create_task(self._answer(call, sent, sender))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        # A client that goes away, or whose deadline passes, ends this call, and not what it has begun: a
        # change is to be noted in the audit log.
        return await asyncio.shield(task)

    async def _answer(self, call: str, sent: bytes | None, sender: _Sender) -> bytes | RpcError:
        try:
            return await self._asked(call, sent, sender)
        except Exception as error:
            message = note_bug(call, error)
            return RpcError(status="INTERNAL", message=message, details=b"")

    async def _asked(self, call: str, sent: bytes | None, sender: _Sender) -> bytes | RpcError:
        method = method_of(call) if sent is not None else None
        sent = sent or b""
        request, refusal = await _converted(sent, partial(_request_of, method, call, sent))
        state: dict[str, Any] = {IDENTITY: sender.identity}
        if refusal:
            state[REFUSAL] = refusal
        answer = await ask(self._app, request, sender.headers, sender.address, state)
        if not answer.is_whole:
            return RpcError(status="UNAVAILABLE", message="the answer was broken off", details=b"")
        if answer.status >= _FAILED or method is None:
            return await _converted(answer.body, partial(rpc_error, answer.body, _CODES))
        # A job that is polled is mostly what it was before: short answers are kept as messages.
        convert = _kept_answer if len(answer.body) <= _SHORT else rpc_answer
        return await _converted(answer.body, partial(convert, method, answer.body))


async def _converted(message: bytes, convert: Callable[[], _Converted]) -> _Converted:
    """Return what ``convert`` makes of ``message``: here, or on another thread if it is long."""
    return convert() if len(message) <= _SHORT else await run_in_threadpool(convert)


async def _read(context: Any) -> bytes | RpcError:
    """Return the message of a call, or why there is none."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            sent = await context.read()
    except TimeoutError:
        message = f"the message must have come within {READ_SECONDS:g} s; send it at once"
        return RpcError(status="DEADLINE_EXCEEDED", message=message, details=b"")
    if sent is grpc.aio.EOF:
        return RpcError(status="INVALID_ARGUMENT", message="a call must have one message", details=b"")
    read: bytes = sent
    return read


def _request_of(method: Method | None, call: str, sent: bytes) -> tuple[RestRequest, TrainingError | None]:
    """Return the request of REST, and why it is refused if it cannot be served."""
    refusal: TrainingError
    if method is None:
        refusal = NotServed(refusal_of(call))
    else:
        try:
            return rest_request(method, sent), None
        except InvalidRequest as error:
            refusal = error
    return RestRequest(verb="POST", path=path_of_unserved(call)), refusal
