"""Faults of calls, around an app that knows nothing of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from training_service.api.middleware.injected_faults import FaultyCalls
from training_service.faults.board import FaultBoard
from training_service.faults.rules import Fault, FaultKind

GET = {"type": "http", "method": "GET", "path": "/v1/projects/p/jobs/job"}


class App:
    """Answers everything with one letter, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"] if scope["type"] == "http" else scope["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})


class Client:
    """Asks an app with faults, and keeps what it answered."""

    def __init__(self, *faults: Fault) -> None:
        self.app, self.board = App(), FaultBoard()
        for fault in faults:
            self.board.set(fault)

    def ask(self, scope: dict[str, Any]) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError("nothing is read here")

        asyncio.run(FaultyCalls(self.app, self.board)(scope, receive, send))
        return sent


def error(**changes: Any) -> Fault:
    return Fault(kind=FaultKind.ERROR, **{"code": 503} | changes)


def test_without_a_fault_a_call_goes_through() -> None:
    client = Client()

    assert client.ask(GET)[-1]["body"] == b"x"
    assert client.app.asked == ["/v1/projects/p/jobs/job"]


def test_an_error_is_answered_in_the_apis_form_and_the_app_is_not_asked() -> None:
    client = Client(error(code=429, retry_after_seconds=1.5))

    start, body = client.ask(GET)

    assert start["status"] == 429
    assert dict(start["headers"])[b"retry-after"] == b"1.5"
    assert b'"status":"RESOURCE_EXHAUSTED"' in body["body"]
    assert client.app.asked == []


def test_a_lost_answer_is_that_of_a_call_that_was_carried_out() -> None:
    client = Client(Fault(kind=FaultKind.DROP))

    start, body = client.ask(GET)

    assert client.app.asked == ["/v1/projects/p/jobs/job"]
    assert int(dict(start["headers"])[b"content-length"]) > len(body["body"])
    assert body["more_body"]


def test_a_delayed_call_is_carried_out_late(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("training_service.api.middleware.injected_faults.asyncio.sleep", sleep)
    client = Client(Fault(kind=FaultKind.DELAY, seconds=2.5), error(methods=["jobs.list"]))

    assert client.ask(GET)[-1]["body"] == b"x"
    assert slept == [2.5]


def test_an_error_wins_over_a_lost_answer() -> None:
    client = Client(Fault(kind=FaultKind.DROP), error())

    assert client.ask(GET)[0]["status"] == 503
    assert client.app.asked == []


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "http", "method": "GET", "path": "/health"},
        {"type": "http", "method": "DELETE", "path": "/faults"},
        {"type": "lifespan"},
    ],
)
def test_who_looks_after_the_service_meets_no_faults(scope: dict[str, Any]) -> None:
    client = Client(error(), Fault(kind=FaultKind.DROP))

    assert client.ask(scope)[-1]["body"] == b"x"


def test_a_fault_happens_as_often_as_it_was_asked_for() -> None:
    client = Client(error(times=2))

    assert [client.ask(GET)[0]["status"] for _ in range(3)] == [503, 503, 200]
