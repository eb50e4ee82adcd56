"""
Answers calls of gRPC by the app that serves REST.

A call becomes a request of REST within the process, so that it passes the same doors: token, permissions,
audit log, limit of bodies, injected faults, worker threads. What cannot be read is refused behind these
doors, too.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import grpc
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from training_api.errors import InvalidRequest, TrainingError
from training_service.api.errors import note_bug
from training_service.api.vertex_v1.unserved import REFUSAL, NotServed
from training_service.grpc_api.in_process import ask
from training_service.grpc_api.methods import Method, method_of, path_of_unserved, refusal_of
from training_service.grpc_api.transcoding import RestRequest, RpcError, rest_request, rpc_answer, rpc_error
from training_service.telemetry.metrics import OTHER, Metrics

#: At the same time; each may hold a whole message.
MOST_CALLS = 100
#: What the gate goes by. gRPC for Python does not tell its handlers the name that was asked for.
_HEADERS = ("authorization", "origin", "sec-fetch-site")
_HOST = "127.0.0.1"
_DETAILS = "grpc-status-details-bin"
_CODES = {code.name: code.value[0] for code in grpc.StatusCode}
_FAILED = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class _Caller:
    """Who calls: address and port, and what the gate goes by."""

    address: tuple[str, int]
    headers: dict[str, str]


class Calls(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers every method, those that are not served with a refusal."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._running: set[asyncio.Task[bytes | RpcError]] = set()

    def service(self, details: Any) -> Any:
        """Return what answers the call of these ``details``."""
        # Messages stay bytes: gRPC's own reading of them would answer INTERNAL for what cannot be read.
        return grpc.unary_unary_rpc_method_handler(partial(self._serve, details.method))

    async def settle(self, seconds: float) -> None:
        """Wait until what was begun is done, and in the audit log."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    async def _serve(self, call: str, sent: bytes, context: Any) -> bytes | RpcError:
        started, code = time.perf_counter(), grpc.StatusCode.CANCELLED
        try:
            answer = await self._run(call, sent, _caller_of(context))
            code = grpc.StatusCode.OK if isinstance(answer, bytes) else grpc.StatusCode[answer.status]
        finally:
            name = call.strip("/") if method_of(call) else OTHER
            self._metrics.grpc_requests.labels(name, code.name).observe(time.perf_counter() - started)
        if isinstance(answer, RpcError):
            trailers = ((_DETAILS, answer.details),) if answer.details else ()
            await context.abort(code, answer.message, trailers)
        return answer

    async def _run(self, call: str, sent: bytes, caller: _Caller) -> bytes | RpcError:
        # Those whose clients have gone count, too: what they began goes on.
        if len(self._running) >= MOST_CALLS:
            message = f"this service answers {MOST_CALLS} calls at once; try again later"
            return RpcError(status="RESOURCE_EXHAUSTED", message=message, details=b"")
        task = asyncio.create_task(self._answer(call, sent, caller))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        # A client that goes away, or whose deadline passes, ends this call, and not what it has begun: a
        # change is to be noted in the audit log.
        return await asyncio.shield(task)

    async def _answer(self, call: str, sent: bytes, caller: _Caller) -> bytes | RpcError:
        try:
            return await self._asked(call, sent, caller)
        except Exception as error:
            message = note_bug(call, error)
            return RpcError(status="INTERNAL", message=message, details=b"")

    async def _asked(self, call: str, sent: bytes, caller: _Caller) -> bytes | RpcError:
        method = method_of(call)
        request, refusal = await run_in_threadpool(_request_of, method, call, sent)
        state = {REFUSAL: refusal} if refusal else {}
        answer = await ask(self._app, request, caller.headers, caller.address, state)
        if not answer.is_whole:
            return RpcError(status="UNAVAILABLE", message="the answer was broken off", details=b"")
        if answer.status >= _FAILED or method is None:
            return await run_in_threadpool(rpc_error, answer.body, _CODES)
        return await run_in_threadpool(rpc_answer, method, answer.body)


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


def _caller_of(context: Any) -> _Caller:
    """Return who calls; ``peer`` is like ``ipv4:127.0.0.1:50000`` and ``ipv6:%5B::1%5D:50000``."""
    address, _, port = unquote(context.peer()).partition(":")[2].rpartition(":")
    headers = {"host": _HOST}
    for name, value in context.invocation_metadata() or ():
        if name in _HEADERS and isinstance(value, str):
            headers.setdefault(name, value)
    client = (address.strip("[]"), int(port)) if port.isdecimal() else ("", 0)
    return _Caller(address=client, headers=headers)
