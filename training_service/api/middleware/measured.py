"""
The measuring of requests: an ASGI middleware.

Starlette's own way, a function that calls the next one, runs the app in a task of its own and passes answers
through a queue, which takes a tenth of a short request.
"""

from __future__ import annotations

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from training_service.telemetry.metrics import Metrics

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Measured:
    """Observes how long each request of ``app`` takes until its answer begins."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._seconds = metrics.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def observe_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A client may make up methods, and each would be a series of its own.
                method = scope["method"] if scope["method"] in _METHODS else "OTHER"
                route = getattr(scope.get("route"), "path", "unknown")
                seconds = time.perf_counter() - started
                self._seconds.labels(method, route, message["status"]).observe(seconds)
            await send(message)

        await self._app(scope, receive, observe_and_send)
