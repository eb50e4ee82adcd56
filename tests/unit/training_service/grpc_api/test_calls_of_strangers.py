"""Calls whose message is not read, as strangers send it or as it does not come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import pytest

from tests.support.fakes.custom_jobs import make_custom_job
from tests.support.rpc import ANN, JOB_SERVICE, Rpc
from tests.support.speed import scaled
from training_service.access.decision import Caller
from training_service.access.identity import Authenticator
from training_service.grpc_api import calls

GET = f"/{JOB_SERVICE}/GetCustomJob"
NEW = {"parent": "projects/demo/locations/us-central1", "customJob": make_custom_job()}


@contextmanager
def held_open(port: int, number: int, token: str = "") -> Iterator[list[Any]]:
    """Begin calls whose message never comes; gives their futures."""
    gone = threading.Event()

    def nothing() -> Iterator[bytes]:
        gone.wait()
        yield from ()

    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        begin = channel.stream_unary(GET).future
        held = [begin(nothing(), metadata=metadata) for _ in range(number)]
        try:
            yield held
        finally:
            gone.set()


def test_calls_of_strangers_end_before_their_message_comes(guarded: Rpc) -> None:
    name = guarded.call("CreateCustomJob", NEW, ANN)["name"]

    with held_open(guarded.port, calls.MOST_CALLS) as held:
        codes = {each.exception(scaled(30)).code() for each in held}
        found = guarded.call("GetCustomJob", {"name": name}, ANN)

    assert codes == {grpc.StatusCode.UNAUTHENTICATED}
    assert found["name"] == name


def test_a_message_of_a_stranger_is_not_looked_at(guarded: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr(calls, "rest_request", lambda _, sent: read.append(sent))

    with pytest.raises(grpc.RpcError) as caught:
        guarded.send(GET, b"\x0a\x01a")

    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert read == []


@pytest.mark.parametrize("token", [ANN, "token-of-a-stranger"])
def test_a_token_is_verified_once(guarded: Rpc, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    name = guarded.call("CreateCustomJob", NEW, ANN)["name"]
    verified: list[str | None] = []
    bearer = Authenticator.bearer

    def noted(known: Authenticator, authorization: str | None) -> Caller | None:
        verified.append(authorization)
        return bearer(known, authorization)

    monkeypatch.setattr(Authenticator, "bearer", noted)
    with suppress(grpc.RpcError):
        guarded.call("GetCustomJob", {"name": name}, token)

    assert verified == [f"Bearer {token}"]


def test_a_message_that_does_not_come_ends_the_call(guarded: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(calls, "READ_SECONDS", 0.1)
        with held_open(guarded.port, 2, ANN) as held:
            (words,) = {str(each.exception(scaled(30)).details()) for each in held}

    assert words == "the message must have come within 0.1 s; send it at once"
    assert guarded.call("CreateCustomJob", NEW, ANN)


def test_a_call_without_a_message_is_the_clients_mistake(rpc: Rpc) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        rpc.channel.stream_unary(GET)(iter(()), timeout=scaled(30))

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "a call must have one message"
