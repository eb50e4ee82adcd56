"""Answers of the training API by ``httpx``'s mock transport, and calls that get them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx

from training_api.clients.training import AsyncTrainingClient, TrainingClient

ENDPOINT = "http://127.0.0.1:8470"
Handler = Callable[[httpx.Request], httpx.Response]
Call = Callable[..., Any]


def call_sync(handler: Handler, method: str, *args: Any, endpoint: str = ENDPOINT, **options: Any) -> Any:
    with TrainingClient(endpoint, "demo", transport=httpx.MockTransport(handler), **options) as client:
        return getattr(client, method)(*args)


def call_async(handler: Handler, method: str, *args: Any, endpoint: str = ENDPOINT, **options: Any) -> Any:
    async def call() -> Any:
        transport = httpx.MockTransport(handler)
        async with AsyncTrainingClient(endpoint, "demo", transport=transport, **options) as client:
            return await getattr(client, method)(*args)

    return asyncio.run(call())


class Recorder:
    """Answers every request alike and keeps the last one."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.request: httpx.Request | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.request = request
        return httpx.Response(200, json=self.answer)

    @property
    def seen(self) -> tuple[str, str, Any]:
        """Method, target as on the wire, and JSON body of the last request."""
        assert self.request is not None
        content = self.request.content
        return (
            self.request.method,
            self.request.url.raw_path.decode(),
            json.loads(content) if content else None,
        )


def answer(status: int, body: Any = None, **options: Any) -> Handler:
    """Return a handler that gives one answer to everything."""
    return lambda _: httpx.Response(status, json=body, **options)


def error_body(code: int, message: str, status: str, *violations: tuple[str, str]) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    if violations:
        fields = [{"field": field, "description": text} for field, text in violations]
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields}]
    return {"error": error}


def raising(error: Exception) -> Handler:
    def handle(_: httpx.Request) -> httpx.Response:
        raise error

    return handle
