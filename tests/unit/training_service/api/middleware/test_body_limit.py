"""A body is read as far as its limit, whoever sends it and however."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from training_service.api.middleware.body_limit import DEFAULT_LIMIT, BodyLimit, body_limit

JOBS = "/v1/projects/p/jobs"


class App:
    """Reads a whole body, as FastAPI does, and answers with its length."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.is_left = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.is_left = True
                return
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})


class Client:
    """Sends the parts of a body; knows how many of them were read."""

    def __init__(self) -> None:
        self.app = App()
        self.read = 0

    def send(self, parts: Iterator[bytes], *headers: tuple[bytes, bytes], path: str = JOBS) -> list[Message]:
        sent: list[Message] = []

        async def receive() -> Message:
            self.read += 1
            part = next(parts, None)
            if part is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": part, "more_body": part != b""}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "headers": [*headers]}
        asyncio.run(BodyLimit(self.app)(scope, receive, send))
        return sent


@pytest.fixture
def client() -> Client:
    return Client()


def parts(count: int, size: int = 1024) -> Iterator[bytes]:
    """Yield ``count`` parts of a body, and its end."""
    yield from (b"x" * size for _ in range(count))
    yield b""


def error_of(sent: list[Message]) -> Any:
    return json.loads(sent[-1]["body"])["error"]


def test_a_body_of_many_parts_reaches_the_app_as_it_is(client: Client) -> None:
    sent = client.send(iter([b"a", b"b" * 1000, b"c", b""]))

    assert sent[0]["status"] == 200
    assert client.app.bodies == [b"a" + b"b" * 1000 + b"c"]


def test_a_body_of_just_the_limit_passes_and_one_byte_more_does_not(client: Client) -> None:
    assert client.send(parts(1, DEFAULT_LIMIT))[0]["status"] == 200
    assert client.send(parts(1, DEFAULT_LIMIT + 1))[0]["status"] == 400


def test_a_long_body_is_refused_by_its_length_before_it_is_read(client: Client) -> None:
    sent = client.send(parts(20_000), (b"content-length", b"20480000"))

    assert (client.read, client.app.bodies) == (0, [])
    assert error_of(sent) == {
        "code": 400,
        "message": "Request payload size exceeds the limit: 1048576 bytes; got a Content-Length of 20480000. "
        "Send a shorter body.",
        "status": "INVALID_ARGUMENT",
    }


@pytest.mark.parametrize("headers", [(), ((b"content-length", b"5"),), ((b"content-length", b"\xb2"),)])
def test_a_body_that_does_not_say_its_length_is_read_to_its_limit(
    client: Client, headers: tuple[tuple[bytes, bytes], ...]
) -> None:
    sent = client.send(parts(20_000), *headers)

    assert sent[0]["status"] == 400
    assert error_of(sent)["message"].startswith(
        "Request payload size exceeds the limit: 1048576 bytes; got more"
    )
    assert (client.read, client.app.bodies) == (1025, [])


def test_an_app_learns_that_its_client_went_away_within_the_body(client: Client) -> None:
    assert client.send(iter([b"a"])) == []

    assert client.app.is_left


@pytest.mark.parametrize("length", [b"9" * 5000, b"1048577"])
def test_a_length_of_any_size_is_read(client: Client, length: bytes) -> None:
    assert client.send(parts(1), (b"content-length", length))[0]["status"] == 400


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        (JOBS, 1024 * 1024),
        (f"{JOBS}/j", 1024 * 1024),
        (f"{JOBS}/j:setIamPolicy", 1024 * 1024),
        ("/ops/v1/projects/p/jobs:search", 1024 * 1024),
        ("/nothing", 1024 * 1024),
        ("/v2/entries:list", 256 * 1024),
        (f"{JOBS}/j:cancel", 64 * 1024),
        ("/v1/projects/p:getIamPolicy", 64 * 1024),
        ("/v1/projects/p/locations/l/repositories/r:testIamPermissions", 64 * 1024),
    ],
)
def test_each_route_has_its_limit(path: str, limit: int) -> None:
    assert body_limit(path) == limit


def test_what_is_no_request_passes() -> None:
    asked: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        asked.append(scope["type"])

    async def nothing(*_: Any) -> Any:
        raise AssertionError("nothing is read or sent here")

    asyncio.run(BodyLimit(app)({"type": "lifespan"}, nothing, nothing))

    assert asked == ["lifespan"]
