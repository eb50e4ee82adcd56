"""
Forwards connections of containers to a program on loopback.

``python -m local_stack.processes.relay --listen A --to B``.

Containers reach this machine at the engine's bridge only, and nothing but this relay listens there. It
imports the standard library only, to stay small.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from contextlib import suppress
from typing import NamedTuple

CHUNK_BYTES = 64 * 1024
CONNECT_TIMEOUT_SECONDS = 5.0
#: Where relayed connections come from on loopback, so that a program there can tell containers from this
#: machine's users.
CONTAINERS_ADDRESS = "127.0.0.2"


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """
        Read ``HOST:PORT``.

        :raises argparse.ArgumentTypeError: ``text`` is something else.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise argparse.ArgumentTypeError(f"an address must be HOST:PORT, got {text!r}")
        return cls(host, int(port))


async def relay(listen: Address, to: Address) -> None:
    """Relay every connection on ``listen`` to ``to`` until SIGTERM or SIGINT."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = await asyncio.start_server(
        lambda reader, writer: _serve(reader, writer, to), listen.host, listen.port
    )
    print(f"relaying {listen.host}:{listen.port} to {to.host}:{to.port}", flush=True)
    async with server:
        await stopped.wait()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: Address) -> None:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            far_reader, far_writer = await asyncio.open_connection(
                to.host, to.port, local_addr=(CONTAINERS_ADDRESS, 0)
            )
    except OSError as error:  # TimeoutError is one
        print(f"{to.host}:{to.port} does not accept a connection: {error}", flush=True)
        writer.transport.abort()  # a reset, which clients retry, and not an empty answer
        return
    try:
        await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    except OSError:
        # One side broke off; closing both is all that is left to do.
        writer.transport.abort()
        far_writer.transport.abort()
    finally:
        for end in (writer, far_writer):
            end.close()
            with suppress(OSError):
                await end.wait_closed()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """
    Copy until the source ends, and pass the end on.

    The other direction may continue (TCP half-close).
    """
    while chunk := await source.read(CHUNK_BYTES):
        target.write(chunk)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


def main() -> int:
    """Parse the command line and relay."""
    parser = argparse.ArgumentParser(prog="python -m local_stack.processes.relay", description=__doc__)
    parser.add_argument("--listen", type=Address.parse, required=True, metavar="HOST:PORT")
    parser.add_argument("--to", type=Address.parse, required=True, metavar="HOST:PORT")
    arguments = parser.parse_args()
    asyncio.run(relay(arguments.listen, arguments.to))
    return 0


if __name__ == "__main__":
    sys.exit(main())
