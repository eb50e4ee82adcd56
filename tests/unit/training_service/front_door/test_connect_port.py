"""The CONNECT port over real sockets: whom it lets in, and what they may take."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import reserve_port
from tests.support.speed import drawn_out, scaled
from tests.support.waiting import wait_until_async
from training_service.front_door.certificates import CertificateFiles, ensure_certificates
from training_service.front_door.client_hello import peeking_context
from training_service.front_door.connect_port import ConnectPort, Limits

CENTRAL = "us-central1-aiplatform.googleapis.com"
CONNECT = f"CONNECT {CENTRAL}:443 HTTP/1.1\r\nHost: {CENTRAL}:443\r\n\r\n".encode()
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return ensure_certificates(tmp_path_factory.mktemp("tls"))


@dataclass
class Echo:
    """A server of TLS that says its name and then every line that it is told."""

    name: bytes
    port: int = 0
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            writer.write(self.name + b"\n")
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        except OSError:
            return
        finally:
            writer.close()


@dataclass
class House:
    """A port, and the two servers behind it."""

    port: int
    rest: Echo
    grpc: Echo
    authority: Path

    async def say(self, data: bytes) -> Streams:
        """Open a connection to the port and say ``data``."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return reader, writer

    async def enter(self, protocols: list[str], name: str = CENTRAL) -> Streams:
        """Do what a client of Vertex AI does: CONNECT, then TLS for the name."""
        reader, writer = await self.say(CONNECT)
        context = ssl.create_default_context(cafile=self.authority)
        context.set_alpn_protocols(protocols)
        try:
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            await writer.start_tls(context, server_hostname=name)
        except BaseException:
            writer.close()
            raise
        return reader, writer


@asynccontextmanager
async def house(
    files: CertificateFiles, limits: Limits | None = None, *, has_grpc: bool = True, port_number: int = 0
) -> AsyncIterator[House]:
    servers, echoes = [], []
    for name, protocol in ((b"rest", "http/1.1"), (b"grpc", "h2")):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        context.set_alpn_protocols([protocol])
        echo = Echo(name)
        server = await asyncio.start_server(echo.serve, "127.0.0.1", 0, ssl=context)
        echo.port = server.sockets[0].getsockname()[1]
        servers.append(server)
        echoes.append(echo)
    rest, grpc = echoes
    port = ConnectPort(
        rest=("127.0.0.1", rest.port),
        grpc=("127.0.0.1", grpc.port) if has_grpc else None,
        context=peeking_context(files.certificate, files.key),
        limits=limits or Limits(),
    )
    bound = await port.start("127.0.0.1", port_number)
    try:
        yield House(bound, rest, grpc, files.authority)
    finally:
        await port.stop()
        for server in servers:
            server.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a story of one test, which ends in time."""
    asyncio.run(asyncio.wait_for(story(), scaled(60)))


async def is_over(reader: asyncio.StreamReader) -> bool:
    """Tell whether the other side has ended the connection; waits for it."""
    try:
        return not await reader.read(1)
    except OSError:
        return True


@pytest.mark.parametrize(
    ("protocols", "who"), [(["h2"], b"grpc"), (["http/1.1"], b"rest"), (["h2", "http/1.1"], b"rest")]
)
def test_a_client_reaches_the_server_that_speaks_its_protocol(
    protocols: list[str], who: bytes, files: CertificateFiles
) -> None:
    async def story() -> None:
        async with house(files) as here:
            reader, writer = await here.enter(protocols)
            assert await reader.readline() == who + b"\n"
            long = b"x" * 50_000 + b"\n"
            for line in (b"hello\n", long, b"again\n"):
                writer.write(line)
                assert await reader.readexactly(len(line)) == line
            writer.close()

    run(story)


def test_the_first_words_may_come_in_pieces_and_with_the_request(files: CertificateFiles) -> None:
    async def story() -> None:
        context = ssl.create_default_context(cafile=files.authority)
        context.set_alpn_protocols(["h2"])
        heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(heard, said, server_hostname=CENTRAL)
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        words = CONNECT + said.read()

        async with house(files) as here:
            reader, writer = await here.say(b"")
            for place in range(0, len(words), 7):
                writer.write(words[place : place + 7])
                await writer.drain()
                await asyncio.sleep(0)
            assert await reader.readuntil(b"\r\n\r\n")
            heard.write(await reader.read(65_536))
            client.do_handshake()
            assert client.selected_alpn_protocol() == "h2"
            writer.close()

    run(story)


def test_a_client_that_wants_another_name_trusts_nobody_behind_the_port(files: CertificateFiles) -> None:
    async def story() -> None:
        async with house(files) as here:
            with pytest.raises(ssl.SSLCertVerificationError):
                await here.enter(["h2"], "storage.googleapis.com")

    run(story)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"CONNECT storage.googleapis.com:443 HTTP/1.1", b"403"),
        (b"CONNECT 127.0.0.1:22 HTTP/1.1", b"403"),
        (b"GET http://aiplatform.googleapis.com/ HTTP/1.1", b"405"),
        (b"\x16\x03\x01", b"400"),
    ],
)
def test_all_else_is_refused_and_reaches_nobody(
    request_line: bytes, status: bytes, files: CertificateFiles
) -> None:
    async def story() -> None:
        async with house(files) as here:
            reader, writer = await here.say(request_line + b"\r\n\r\n")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert answer.endswith(b"\n")
            writer.close()
            assert not here.rest.connections
            assert not here.grpc.connections

    run(story)


def test_a_client_of_grpc_is_cut_off_where_there_is_none(files: CertificateFiles) -> None:
    async def story() -> None:
        async with house(files, has_grpc=False) as here:
            with pytest.raises(ConnectionError):
                await here.enter(["h2"])
            reader, writer = await here.enter(["http/1.1"])
            assert await reader.readline() == b"rest\n"
            writer.close()

    run(story)


@pytest.mark.parametrize(
    "said",
    [b"", b"CONNECT", CONNECT, CONNECT + b"\x16\x03\x01\x02\x00\x01"],
    ids=["nothing", "half a request", "no TLS", "half of the first words"],
)
def test_a_client_that_takes_too_long_to_begin_is_cut_off(said: bytes, files: CertificateFiles) -> None:
    async def story() -> None:
        async with house(files, Limits(begin_seconds=0.2)) as here:
            reader, writer = await here.say(said)
            answer = await reader.read()
            assert answer in (b"", b"HTTP/1.1 200 Connection established\r\n\r\n")
            writer.close()

    run(story)


@pytest.mark.parametrize(
    "said",
    [b"x" * 20_000, b"CONNECT " + b"x" * 20_000, CONNECT + b"no TLS at all", CONNECT + b"\x16" * 100_000],
    ids=["no request", "a long request", "no TLS", "long first words"],
)
def test_a_client_that_says_too_much_or_no_tls_is_cut_off(said: bytes, files: CertificateFiles) -> None:
    async def story() -> None:
        async with house(files) as here:
            reader, writer = await here.say(said)
            try:
                answer = await reader.read()
            except OSError:  # it had more to say
                answer = b""
            assert answer in (b"", b"HTTP/1.1 200 Connection established\r\n\r\n")
            writer.close()
            assert not here.rest.connections

    run(story)


def test_a_flood_is_bounded_and_who_comes_after_it_is_served(files: CertificateFiles) -> None:
    async def story() -> None:
        async with house(files, Limits(connections=5)) as here:
            inside = [await here.enter(["h2"]) for _ in range(5)]
            for _ in range(50):
                reader, writer = await here.say(b"")
                answer = await reader.read()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"it has 5 connections, its limit" in answer
                writer.close()
            assert len(here.grpc.connections) == 5
            for reader, writer in inside:
                assert await reader.readline() == b"grpc\n"
                writer.close()

            async def enters() -> bool:
                try:
                    reader, writer = await here.enter(["h2"])
                except (AssertionError, OSError, asyncio.IncompleteReadError):
                    return False
                assert await reader.readline() == b"grpc\n"
                writer.close()
                return True

            while not await enters():
                await asyncio.sleep(0.01)

    run(story)


def test_a_tunnel_ends_where_nothing_passes_and_not_while_something_does(files: CertificateFiles) -> None:
    async def story() -> None:
        async with house(files, Limits(idle_seconds=drawn_out(2.0))) as here:
            busy_reader, busy = await here.enter(["h2"])
            reader, writer = await here.enter(["h2"])
            assert await reader.readline() == b"grpc\n"

            async def keep_busy() -> None:
                while True:
                    busy.write(b"still here\n")
                    await busy_reader.readline()
                    await asyncio.sleep(0.02)

            working = asyncio.create_task(keep_busy())
            assert await is_over(reader)
            assert not working.done()
            working.cancel()
            writer.close()
            busy.close()

    run(story)


@pytest.mark.parametrize("who", ["client", "server"])
def test_the_other_side_learns_that_one_has_gone(who: str, files: CertificateFiles) -> None:
    async def story() -> None:
        async with house(files) as here:
            reader, writer = await here.enter(["h2"])
            assert await reader.readline() == b"grpc\n"
            (inner,) = here.grpc.connections
            if who == "client":
                writer.transport.abort()
                await wait_until_async(inner.is_closing, "the server's connection has ended")
            else:
                inner.transport.abort()
                assert await is_over(reader)
                writer.close()

    run(story)


def test_stopping_ends_all_connections(files: CertificateFiles) -> None:
    async def story() -> None:
        # Another process may listen on an ephemeral port once it is free.
        async with house(files, port_number=reserve_port()) as here:
            silent, silent_writer = await here.say(b"")
            inside, writer = await here.enter(["http/1.1"])
            assert await inside.readline() == b"rest\n"
        assert await is_over(silent)
        assert await is_over(inside)
        with pytest.raises(ConnectionRefusedError):
            await here.say(b"")
        for each in (silent_writer, writer):
            each.close()

    run(story)
