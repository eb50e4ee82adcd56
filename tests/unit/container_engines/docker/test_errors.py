"""docker-py's errors become the project's own."""

from __future__ import annotations

import pytest
import requests
import urllib3
from docker.errors import APIError, DockerException

from container_engines.docker.error_table import IN_STREAM, Asked, Refusal
from container_engines.docker.errors import engine_error, engine_errors, without_errors
from training_api.errors import (
    CommandNotFound,
    DiskFull,
    EngineBusy,
    EngineError,
    EngineUnavailable,
    ImageAccessDenied,
    ImageNotFound,
    RegistryUnavailable,
    TrainingError,
)
from training_api.retrying import ENGINE_MAY_DO_LATER

KINDS = {
    Refusal.NO_IMAGE: (404, "No such image: x", ImageNotFound),
    Refusal.NO_ACCESS: (403, "denied", ImageAccessDenied),
    Refusal.NO_COMMAND: (400, 'exec: "x": executable file not found in $PATH', CommandNotFound),
    Refusal.NO_ROOM: (500, "no space left on device", DiskFull),
    Refusal.INVALID: (400, "no command specified", EngineError),
    Refusal.BUSY: (500, "boom", EngineBusy),
    Refusal.NO_REGISTRY: (429, "slower", RegistryUnavailable),
    Refusal.NO_ENGINE: (IN_STREAM, "daemon is shutting down", EngineUnavailable),
}


@pytest.mark.parametrize("refusal", Refusal)
def test_each_meaning_has_its_class_which_may_pass_if_it_may(refusal: Refusal) -> None:
    status, text, kind = KINDS[refusal]

    asked = Asked.ENGINE if refusal is Refusal.NO_COMMAND else Asked.REGISTRY
    error = engine_error("pull h/p/i:1", text, status=status, asked=asked)

    assert type(error) is kind
    assert str(error).startswith(f"pull h/p/i:1: {text}")
    assert isinstance(error, ENGINE_MAY_DO_LATER) is refusal.is_passing


def test_the_status_of_the_answer_counts() -> None:
    answer = requests.Response()
    answer.status_code = 409

    with pytest.raises(EngineBusy, match="start x: taken"), engine_errors("start x"):
        raise APIError("409 Client Error", response=answer, explanation="taken")


def test_a_refusal_without_an_answer_keeps_its_explanation() -> None:
    with pytest.raises(EngineError, match="start x: boom"), engine_errors("start x"):
        raise APIError("500 Server Error", explanation="boom")


@pytest.mark.parametrize(
    "cause",
    [
        requests.ConnectionError("refused"),
        requests.ReadTimeout("60 s"),
        urllib3.exceptions.ProtocolError("cut off"),
        FileNotFoundError("/var/run/docker.sock"),
        DockerException("Error while fetching server API version"),
    ],
)
def test_silent_engine_is_unavailable(cause: Exception) -> None:
    with (
        pytest.raises(EngineUnavailable, match="did not answer to 'list containers'"),
        engine_errors("list containers"),
    ):
        raise cause


@pytest.mark.parametrize(
    ("text", "kind"),
    [("manifest unknown", ImageNotFound), ("toomanyrequests", RegistryUnavailable), ("odd", EngineError)],
)
def test_an_error_among_the_messages_of_a_pull_is_raised(text: str, kind: type[TrainingError]) -> None:
    messages = without_errors([{"status": "Pulling"}, {"error": text}, {"status": "no more"}], "pull x")

    assert next(messages) == {"status": "Pulling"}
    with pytest.raises(TrainingError, match=f"pull x: {text}") as caught:
        next(messages)
    assert type(caught.value) is kind
