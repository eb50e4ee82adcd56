"""
A BuildKit at an address, as ``buildkitd`` offers it: that of a newer Docker Engine.

The engine speaks BuildKit's protocol, HTTP/2, after an upgrade of a request for ``/grpc``. A bridge makes it
a plain address that wants a certificate.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CHUNK = 1 << 16
#: Source: moby/client/hijack.go, and api/server/router/grpc.
_UPGRADE = (
    b"POST /grpc HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n"
)


@contextmanager
def buildkit_bridge(engine_socket: Path, certificates: Path, port: int) -> Iterator[str]:
    """
    Yield the address of an engine's BuildKit: who comes with the certificate is let through.

    :param engine_socket: of an engine whose image store is containerd's.
    :param certificates: the folder of three files, as docker's, for 127.0.0.1.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    context.set_alpn_protocols(["h2"])
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="buildkit-bridge")
    thread.start()
    tasks: set[asyncio.Task[None] | None] = set()  # nothing else keeps them

    async def pass_both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.current_task())
        try:
            answers, engine = await asyncio.open_unix_connection(str(engine_socket))
            engine.write(_UPGRADE)
            head = await answers.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 "), head
            await asyncio.wait(
                [asyncio.ensure_future(_pass(reader, engine)), asyncio.ensure_future(_pass(answers, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            engine.close()
        finally:
            writer.close()
            tasks.discard(task)

    async def serve() -> asyncio.Server:
        return await asyncio.start_server(pass_both, "127.0.0.1", port, ssl=context)

    server = asyncio.run_coroutine_threadsafe(serve(), loop).result()
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
