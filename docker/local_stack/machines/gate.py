"""
``python -m local_stack.machines.gate``: how other machines reach this one, over TLS.

A connection whose first request is ``POST /machines:join`` gets Swarm's token for workers in exchange for
that of a join command. Every other connection is passed on to the training service as it is, which asks for
tokens itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import re
import signal
import ssl
import sys
import threading
from collections import Counter
from contextlib import closing
from http import HTTPStatus
from pathlib import Path

import docker
import requests
from docker.errors import DockerException

from local_stack.machines.invitations import Invitations
from local_stack.machines.swarm import machines_of, rotate_worker_token, worker_token

JOIN_REQUEST = "POST /machines:join"
_MAX_HEAD_BYTES = 16 * 1024
_HANDSHAKE_SECONDS = 10.0
_HEAD_SECONDS = 20.0
_CONNECT_SECONDS = 5.0
_ENGINE_SECONDS = 20
_MOST_CONNECTIONS = 512
#: Of them of one address.
_MOST_OF_ONE = 128
_TIDY_SECONDS = 1.0
_CHUNK_BYTES = 64 * 1024
_BEARER = re.compile(rb"^authorization:[ \t]*bearer[ \t]+([!-~]+)[ \t]*$", re.IGNORECASE | re.MULTILINE)

logger = logging.getLogger(__name__)


class Joining:
    """
    Exchanges tokens of the stack for Swarm's token, and replaces that one afterwards.

    Safe for threads: one exchange, or one replacement, at a time.

    :param engine_url: of the engine that manages the swarm.
    """

    def __init__(self, engine_url: str, invitations: Invitations) -> None:
        self._engine_url = engine_url
        self._invitations = invitations
        # Without it, a machine could read the token just before it is replaced for another machine, and of
        # two that show the same token the later one's address would be noted.
        self._lock = threading.Lock()

    def join(self, token: str, address: str) -> str | None:
        """
        Return Swarm's token for a machine that joins; ``None``: its own token is not good.

        :raises DockerException: the engine does not answer; the machine's token stays good.
        """
        with self._lock:
            with closing(docker.DockerClient(base_url=self._engine_url, timeout=_ENGINE_SECONDS)) as client:
                found = worker_token(client)
                before = [each.node_id for each in machines_of(client)]
            is_good = self._invitations.use(token, address, before)
        if not is_good:
            logger.warning("refused a machine at %s: its token is unknown, used or expired", address)
            return None
        logger.info("a machine at %s may join", address)
        return found

    def tidy(self) -> None:
        """
        Replace Swarm's token once all machines that were given it have joined, or had their time.

        :raises DockerException: the engine does not answer; to be called again.
        """
        with self._lock:
            self._tidy()

    def _tidy(self) -> None:
        self._invitations.remove_expired()
        given = self._invitations.given()
        if not given:
            return
        with closing(docker.DockerClient(base_url=self._engine_url, timeout=_ENGINE_SECONDS)) as client:
            machines = machines_of(client)
            for each in given.values():
                has_joined = any(
                    machine.address == each.address and machine.node_id not in each.before
                    for machine in machines
                )
                if not has_joined and not self._invitations.is_over(each):
                    return  # another machine's token is the same one
            rotate_worker_token(client)
        self._invitations.forget(given)
        logger.info("replaced the swarm's token for workers: %d of the stack's were used", len(given))


class Gate:
    """
    The server.

    :param training: host and port of the training service.
    """

    def __init__(self, joining: Joining, training: tuple[str, int]) -> None:
        self._joining = joining
        self._training = training
        self._open: Counter[str] = Counter()

    async def serve(self, host: str, port: int, context: ssl.SSLContext) -> None:
        """Serve until the task is cancelled."""
        server = await asyncio.start_server(
            self._connected,
            host,
            port,
            ssl=context,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            limit=_MAX_HEAD_BYTES,
        )
        logger.info("%s:%d leads to the training service at %s:%d", host, port, *self._training)
        async with server:
            await server.serve_forever()

    async def tidy(self) -> None:
        """Replace Swarm's token where that is due, until the task is cancelled."""
        problem = ""
        while True:
            try:
                await asyncio.to_thread(self._joining.tidy)
                problem = ""
            except Exception as error:  # whatever it is: the gate must stay, and this is tried again
                if str(error) != problem:
                    problem = str(error)
                    logger.warning("the swarm's token cannot be replaced now, and will be: %s", error)
            await asyncio.sleep(_TIDY_SECONDS)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str(writer.get_extra_info("peername")[0])
        self._open[address] += 1
        try:
            if self._open[address] <= _MOST_OF_ONE and self._open.total() <= _MOST_CONNECTIONS:
                await self._answer(reader, writer, address)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # the client has gone, or sent nothing that can be answered
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(f"{JOIN_REQUEST} ".encode()):
            status, body = await self._join(head, address)
            writer.write(_response(status, body))
            await writer.drain()
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                inner_reader, inner_writer = await asyncio.open_connection(*self._training)
        except OSError:
            writer.write(_response(HTTPStatus.BAD_GATEWAY, {"error": "the training service does not answer"}))
            await writer.drain()
            return
        try:
            inner_writer.write(head)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pass_on(reader, inner_writer))
                both.create_task(_pass_on(inner_reader, writer))
        except* OSError:
            pass  # one of the two has gone
        finally:
            inner_writer.close()

    async def _join(self, head: bytes, address: str) -> tuple[HTTPStatus, dict[str, str]]:
        found = _BEARER.search(head.replace(b"\r\n", b"\n"))
        if found is None:
            return HTTPStatus.UNAUTHORIZED, {"error": "the token of a join command is missing"}
        try:
            token = await asyncio.to_thread(self._joining.join, found[1].decode("ascii"), address)
        except (DockerException, requests.RequestException, OSError) as error:
            logger.warning("a machine at %s cannot join: %s", address, error)
            return HTTPStatus.SERVICE_UNAVAILABLE, {"error": "the engine does not answer; run it again"}
        if token is None:
            text = "the token is unknown, used or expired; make join-command on the first machine prints a new one"
            return HTTPStatus.FORBIDDEN, {"error": text}
        return HTTPStatus.OK, {"token": token}


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write all that comes, and then the end."""
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    else:
        # TLS cannot end one direction alone: the first close ends both.
        writer.close()


def _response(status: HTTPStatus, body: dict[str, str]) -> bytes:
    content = json.dumps(body).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + content


async def run(gate: Gate, host: str, port: int, context: ssl.SSLContext) -> None:
    """Serve until SIGTERM or SIGINT."""
    ends = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ends.set)
    tasks: list[asyncio.Task[object]] = [
        asyncio.ensure_future(each) for each in (gate.serve(host, port, context), gate.tidy(), ends.wait())
    ]
    done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for task in done:
        task.result()  # an address that is taken, for example


def main() -> int:
    """Parse the command line and serve; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m local_stack.machines.gate", description=__doc__)
    parser.add_argument("--host", required=True, help="address to listen on")
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--training-port", required=True, type=int, help="the training service on loopback")
    parser.add_argument("--engine", required=True, help="URL of the engine that manages the swarm")
    parser.add_argument("--folder", required=True, type=Path, help="certificate, key, and tokens")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(given.folder / "certificate.pem", given.folder / "key.pem")
    joining = Joining(given.engine, Invitations(given.folder / "invitations"))
    gate = Gate(joining, ("127.0.0.1", given.training_port))
    try:
        asyncio.run(run(gate, given.host, given.port, context))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
