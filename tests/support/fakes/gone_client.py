"""A client that sends a request and goes away, for a server's protocol without a socket."""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.server import ServerState


class _Closed(asyncio.Transport):
    """A transport whose end uvloop has noticed: it raises at a write."""

    def is_closing(self) -> bool:
        return True

    def close(self) -> None:
        """Nothing is left to close."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed")


def serve_a_gone_client(config: uvicorn.Config, path: str) -> None:
    """Have a server answer a client that has gone away after its request."""

    async def serve() -> None:
        config.load()
        state = ServerState()
        protocol = config.http_protocol_class(config, state, {})
        protocol.connection_made(_Closed())
        protocol.data_received(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await asyncio.gather(*state.tasks, return_exceptions=True)

    asyncio.run(serve())
