"""Operations of several requests: an answer or error goes back to its request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from training_api.clients.vertex.steps import Steps, play, play_async
from training_api.errors import JobNotFound, TransportError


def _ask(url: str) -> httpx.Request:
    return httpx.Request("GET", f"http://vertex.test/{url}")


def _look() -> Steps[str]:
    first = yield _ask("first")
    try:
        second = yield _ask("second")
    except JobNotFound as error:
        second = str(error)
    return f"{first}, {second}"


def _nothing() -> Steps[str]:
    return "nothing"
    yield


class _Server:
    """Answers with what it was given, in turn."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def send(self, request: httpx.Request) -> Any:
        self.asked.append(request.url.path)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def send_async(self, request: httpx.Request) -> Any:
        return self.send(request)


def _sync(steps: Steps[str], server: _Server) -> str:
    return play(steps, server.send)


def _async(steps: Steps[str], server: _Server) -> str:
    return asyncio.run(play_async(steps, server.send_async))


Player = Callable[[Steps[str], _Server], str]
both = pytest.mark.parametrize("player", [_sync, _async])


@both
def test_answers_go_back_to_the_steps_in_turn(player: Player) -> None:
    server = _Server("a", "b")

    assert player(_look(), server) == "a, b"
    assert server.asked == ["/first", "/second"]


@both
def test_an_error_is_raised_where_the_request_was_made(player: Player) -> None:
    assert player(_look(), _Server("a", JobNotFound("gone"))) == "a, gone"


@both
def test_an_error_that_the_steps_do_not_expect_ends_them(player: Player) -> None:
    server = _Server("a", TransportError("no answer"))

    with pytest.raises(TransportError, match="no answer"):
        player(_look(), server)


@both
def test_steps_without_a_request_ask_nothing(player: Player) -> None:
    server = _Server()

    assert player(_nothing(), server) == "nothing"
    assert server.asked == []
