"""The CONNECT port: an HTTP proxy that leads to this service alone."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass

import structlog

from training_service.front_door.client_hello import ClientHello
from training_service.front_door.refusals import busy, refusal_of

logger = structlog.get_logger(__name__)

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CHUNK_BYTES = 65_536
#: Of a client's first words in TLS; they take half a kilobyte, two with keys against quantum computers.
_HELLO_BYTES = 32_768
#: What a peer, or the lack of one, does to a connection.
_ENDED = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
#: How long a peer may take to read what was last said to it.
_FLUSH_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """
    What clients may take.

    :param connections: at the same time; more are answered 503.
    :param head_bytes: of a request, to its empty line.
    :param begin_seconds: from a connection's begin to the end of its first words in TLS.
    :param idle_seconds: how long nothing may pass in either direction; gRPC then connects anew.
    """

    connections: int = 256
    head_bytes: int = 8192
    begin_seconds: float = 10.0
    idle_seconds: float = 900.0


class ConnectPort:
    """
    Tunnels connections for the names of Vertex AI to two ports of this service.

    What a client speaks decides to which.

    :param rest: host and port of a server of HTTP/1.1 over TLS.
    :param grpc: those of a server of gRPC over TLS; ``None``: clients of gRPC are cut off.
    :param context: of :func:`~training_service.front_door.client_hello.peeking_context`.
    """

    def __init__(
        self,
        *,
        rest: tuple[str, int],
        grpc: tuple[str, int] | None,
        context: ssl.SSLContext,
        limits: Limits = Limits(),
    ) -> None:
        self._rest, self._grpc = rest, grpc
        self._context, self._limits = context, limits
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and serve; the port. :raises OSError: it, or the address, cannot be had."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=self._limits.head_bytes)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Only stop() cancels; asyncio of Python 3.11 would log the cancellation as an error.
        with self._counted(), suppress(*_ENDED, asyncio.CancelledError):
            async with _closing(writer):
                if len(self._connections) > self._limits.connections:
                    writer.write(busy(self._limits.connections))
                    return
                async with asyncio.timeout(self._limits.begin_seconds):
                    refusal = refusal_of(await reader.readuntil(b"\r\n\r\n"))
                    writer.write(refusal or _ESTABLISHED)
                    if refusal:
                        return
                    first, target = await self._first_words(reader)
                    if target is None:
                        logger.warning("a client of gRPC came, and there is no port of gRPC")
                        return
                    inner_reader, inner_writer = await asyncio.open_connection(*target)
                async with _closing(inner_writer):
                    inner_writer.write(first)
                    await self._tunnel((reader, inner_writer), (inner_reader, writer))

    async def _first_words(self, reader: asyncio.StreamReader) -> tuple[bytes, tuple[str, int] | None]:
        """Return what the client said until it was clear to whom, and to whom."""
        hello, first = ClientHello(self._context), b""
        while data := await reader.read(_HELLO_BYTES - len(first)):
            first += data
            if hello.feed(data):
                return first, self._grpc if hello.wants_grpc else self._rest
        raise asyncio.IncompleteReadError(first, None)

    async def _tunnel(self, *ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        """Pass on what is read, until all ways have ended, or one of them breaks."""
        try:
            async with asyncio.timeout(self._limits.idle_seconds) as idle, asyncio.TaskGroup() as group:
                for reader, writer in ways:
                    group.create_task(self._pass_on(reader, writer, idle))
        except* OSError:
            pass

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, idle: asyncio.Timeout
    ) -> None:
        # uvloop raises a RuntimeError where something is written to a connection that is gone.
        while (data := await reader.read(_CHUNK_BYTES)) and not writer.is_closing():
            idle.reschedule(asyncio.get_running_loop().time() + self._limits.idle_seconds)
            writer.write(data)
            await writer.drain()
        if not writer.is_closing():
            writer.write_eof()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # for the type checker: a server makes one a connection
        self._connections.add(task)
        try:
            yield
        finally:
            self._connections.discard(task)


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection at the end; a peer that does not read the rest does not keep it."""
    try:
        yield
    finally:
        writer.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await writer.wait_closed()
        except OSError:
            writer.transport.abort()
