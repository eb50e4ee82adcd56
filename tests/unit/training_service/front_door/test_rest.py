"""What the app behind the names of Vertex AI sees of a request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from training_service.front_door.rest import AsVertexAI

CENTRAL = b"us-central1-aiplatform.googleapis.com"


def seen_of(scope: Scope) -> Scope:
    """Return the scope that the app behind gets."""
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        raise AssertionError("nobody reads the body")

    async def send(message: Message) -> None:
        raise AssertionError(f"nobody answers, got {message}")

    asyncio.run(AsVertexAI(app)(scope, receive, send))
    return seen[0]


def make_scope(host: bytes) -> dict[str, Any]:
    return {
        "type": "http",
        "path": "/v1/projects/p%",
        "raw_path": b"/v1/projects/p%25",
        "headers": [(b"accept", b"a"), (b"host", host), (b"authorization", b"Bearer x")],
    }


def test_a_path_of_googles_is_below_vertex() -> None:
    seen = seen_of(make_scope(CENTRAL))

    assert seen["path"] == "/vertex/v1/projects/p%"
    assert seen["raw_path"] == b"/vertex/v1/projects/p%25"


@pytest.mark.parametrize(
    ("host", "seen"),
    [
        (CENTRAL, b"127.0.0.1"),
        (CENTRAL.upper() + b":443", b"127.0.0.1"),
        (b"aiplatform.googleapis.com", b"127.0.0.1"),
        (b"evil.test", b"evil.test"),
        (b"storage.googleapis.com", b"storage.googleapis.com"),
        (CENTRAL + b":80", CENTRAL + b":80"),
        (b"", b""),
    ],
)
def test_the_service_is_asked_as_itself_where_the_name_is_vertex_ais(host: bytes, seen: bytes) -> None:
    scope = make_scope(host)

    assert dict(seen_of(scope)["headers"]) == {b"accept": b"a", b"host": seen, b"authorization": b"Bearer x"}
    assert scope == make_scope(host)


def test_what_is_no_request_passes_unchanged() -> None:
    assert seen_of({"type": "websocket", "path": "/a"}) == {"type": "websocket", "path": "/a"}
