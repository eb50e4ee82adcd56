"""The service's HTTP surface under the names of Vertex AI, over TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send

from training_service.front_door.names import is_api_host
from training_service.http_config import http_config

_LOOPBACK = "127.0.0.1"
#: Where the service has the paths that Vertex AI has at its root.
_PREFIX = "/vertex"


class AsVertexAI:
    """What ``app`` has below ``/vertex``, for clients that ask for Google's host and paths."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            scope = {
                **scope,
                "path": _PREFIX + scope["path"],
                "raw_path": _PREFIX.encode() + scope["raw_path"],
            }
            headers = MutableHeaders(raw=list(scope["headers"]))
            # The service itself refuses every other name.
            if is_api_host(headers.get("host", "").lower().removesuffix(":443")):
                headers["host"] = _LOOPBACK
            scope["headers"] = headers.raw
        await self._app(scope, receive, send)


@asynccontextmanager
async def rest_server(app: ASGIApp, context: ssl.SSLContext) -> AsyncIterator[tuple[str, int]]:
    """Serve ``app`` over TLS on a free port of loopback until the block ends; its address."""
    config = http_config(
        AsVertexAI(app),
        ssl_context_factory=lambda *_: context,
        lifespan="off",  # it is that of the server around this one
        timeout_graceful_shutdown=1,
    )
    server = _InnerServer(config)
    with socket.create_server((_LOOPBACK, 0)) as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            await serving


class _InnerServer(uvicorn.Server):
    """A server beside another one, which has the process's signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
