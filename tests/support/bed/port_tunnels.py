"""Ports of this machine, found on another one's own addresses as through a tunnel."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_CHUNK = 1 << 18


@contextmanager
def port_tunnels(namespace: Path, ports: Iterable[int]) -> Iterator[None]:
    """
    While open, ``ports`` of a network namespace lead to the same ones of this loopback.

    They are open at each of its addresses. A socket stays in the namespace in which it was made, whoever uses
    it.

    :param namespace: its file.
    """
    listeners = _listeners_in(namespace, ports)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=f"tunnels-{namespace.name}")
    thread.start()

    async def serve() -> list[asyncio.Server]:
        return [await asyncio.start_server(_passing_to(port), sock=listener) for port, listener in listeners]

    servers = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_end(servers), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _listeners_in(namespace: Path, ports: Iterable[int]) -> list[tuple[int, socket.socket]]:
    """Return listening sockets of another namespace; a thread goes there, and ends."""
    made: list[tuple[int, socket.socket]] = []

    def make() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with namespace.open("rb") as file:
            if libc.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(namespace))
        made.extend((port, socket.create_server(("0.0.0.0", port))) for port in ports)  # noqa: S104  # its namespace's

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert made, f"no port of {namespace} could be opened"
    return made


def _passing_to(port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    # The loop refers to its tasks weakly, and so does a transport to its reader: nothing else keeps a task
    # whose client has closed its side, and a garbage collection would end the connection.
    tasks: set[asyncio.Task[None] | None] = set()

    async def passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.current_task())
        try:
            await pass_both(reader, writer)
        finally:
            tasks.discard(task)

    async def pass_both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with _closing(writer):
            there, back = await asyncio.open_connection("127.0.0.1", port)
            async with _closing(back):
                await asyncio.gather(_pass(reader, back), _pass(there, writer))

    return passing


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection in any case; that it breaks is no error."""
    try:
        with suppress(OSError):
            yield
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass everything on until the end, and then the end."""
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def _end(servers: Iterable[asyncio.Server]) -> None:
    for server in servers:
        server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
