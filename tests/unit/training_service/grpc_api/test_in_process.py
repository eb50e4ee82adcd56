"""Apps that are asked within the process."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from training_service.grpc_api.in_process import Answer, ask
from training_service.grpc_api.transcoding import RestRequest


def asked(app: ASGIApp, request: RestRequest) -> Answer:
    return asyncio.run(ask(app, request, {"host": "h", "authorization": "a"}, ("10.0.0.1", 5), {"x": 1}))


def test_an_app_sees_what_a_server_would_show_it() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        seen = [request.method, str(request.url), request.headers["authorization"], request.client]
        body = await request.json()
        await JSONResponse([*seen, request.state.x, body], 201)(scope, receive, send)

    answer = asked(app, RestRequest(verb="POST", path="/a", query={"b": "ü&"}, body=b'{"d": 1}'))

    assert (answer.status, answer.is_whole) == (201, True)
    assert answer.body == b'["POST","http://h/a?b=%C3%BC%26","a",["10.0.0.1",5],1,{"d":1}]'


def test_an_answer_in_pieces_is_one() -> None:
    answer = asked(StreamingResponse(iter(["a", "b"])), RestRequest(verb="GET", path="/"))

    assert (answer.body, answer.is_whole) == (b"ab", True)


def test_an_answer_that_is_broken_off_is_not_whole() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{", "more_body": True})

    assert asked(app, RestRequest(verb="GET", path="/")) == Answer(200, b"{", is_whole=False)


@pytest.mark.parametrize("answers", [True, False])
def test_what_an_app_raises_is_passed_on_unless_it_has_answered(answers: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = [
            {"type": "http.response.start", "status": 500, "headers": []},
            {"type": "http.response.body", "body": b"!"},
        ]
        for message in messages if answers else []:
            await send(message)
        raise ValueError("a bug")

    if answers:
        assert asked(app, RestRequest(verb="GET", path="/")).status == 500
    else:
        with pytest.raises(ValueError, match="a bug"):
            asked(app, RestRequest(verb="GET", path="/"))
