"""The connection to the service is named when nobody answers, and can be closed twice."""

from __future__ import annotations

import ssl

import httpx
import pytest

from tests.support.fakes.training_answers import ENDPOINT, Call, raising
from training_api.clients.training import TrainingClient
from training_api.errors import TransportError


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("connection refused"),
        httpx.ConnectTimeout("timed out"),
        httpx.ReadTimeout("timed out"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("server disconnected"),
        ssl.SSLError(1, "tlsv13 alert certificate required"),
    ],
)
def test_no_answer_is_a_transport_error_that_names_the_request(call: Call, error: Exception) -> None:
    with pytest.raises(TransportError) as caught:
        call(raising(error), "get_job", "a")

    expected = f"the training service at {ENDPOINT} did not answer GET /v1/projects/demo/jobs/a: {error}"
    assert str(caught.value) == expected
    assert caught.value.__cause__ is error


def test_a_silent_failure_is_named_by_its_kind(call: Call) -> None:
    with pytest.raises(TransportError, match=r": ReadTimeout$"):
        call(raising(httpx.ReadTimeout("")), "get_job", "a")


@pytest.mark.parametrize(
    "endpoint", ["http://training.example.com", "https://training.example.com", "http://[::1]:8470"]
)
def test_no_answer_names_the_endpoint_as_it_was_given(call: Call, endpoint: str) -> None:
    with pytest.raises(TransportError) as caught:
        call(raising(httpx.ConnectError("refused")), "get_job", "a", endpoint=endpoint)

    assert str(caught.value).startswith(f"the training service at {endpoint} did not answer GET ")


def test_a_client_can_be_closed_twice() -> None:
    client = TrainingClient(ENDPOINT, "demo")

    client.close()
    client.close()

    with pytest.raises(RuntimeError, match="closed"):
        client.get_job("a")
