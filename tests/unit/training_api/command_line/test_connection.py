"""Whom a command asks: options before the environment, and what is wrong with either."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

import pytest

from training_api.command_line import connection
from training_api.command_line.connection import add_options, advice, client_of, ops_client_of
from training_api.command_line.outcome import UsageError
from training_api.errors import AccessDenied, JobNotFound, TrainingError, TransportError


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAINING_ENDPOINT", "TRAINING_TOKEN", "TRAINING_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-environment")


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(arguments)


class RecordedClient:
    """Keeps what a client was made of."""

    def __init__(self, endpoint: str, project: str, *, headers: dict[str, str] | None) -> None:
        self.made_of = (endpoint, project, headers)


def made_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    for name in ("TrainingClient", "OpsClient"):
        monkeypatch.setattr(connection, name, RecordedClient)
    made = [cast(Any, make(options(*arguments))).made_of for make in (client_of, ops_client_of)]
    assert made[0] == made[1]
    return made[0]


def test_the_environment_names_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    assert made_of(monkeypatch) == ("http://127.0.0.1:8470", "of-the-environment", None)


def test_an_option_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_ENDPOINT", "http://elsewhere")

    made = made_of(monkeypatch, "--project", "of-the-option", "--endpoint", "http://here")

    assert made == ("http://here", "of-the-option", None)


def test_the_token_is_sent_as_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_TOKEN", "secret")

    assert made_of(monkeypatch)[2] == {"Authorization": "Bearer secret"}


def test_a_file_may_have_the_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-the-file\n")
    monkeypatch.setenv("TRAINING_TOKEN_FILE", str(tmp_path / "token"))

    assert made_of(monkeypatch)[2] == {"Authorization": "Bearer of-the-file"}
    monkeypatch.setenv("TRAINING_TOKEN", "secret")
    assert made_of(monkeypatch)[2] == {"Authorization": "Bearer secret"}
    monkeypatch.delenv("TRAINING_TOKEN")
    monkeypatch.setenv("TRAINING_TOKEN_FILE", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="TRAINING_TOKEN_FILE cannot be read"):
        client_of(options())


def test_a_command_without_a_project_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")

    with pytest.raises(UsageError, match="--project"):
        client_of(options())


@pytest.mark.parametrize("endpoint", ["localhost:8470", "unix:///run/training.sock"])
def test_an_endpoint_is_a_url(endpoint: str) -> None:
    with pytest.raises(UsageError, match="must be a URL"):
        client_of(options("--endpoint", endpoint))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TransportError("refused"), "make serve"),
        (AccessDenied("no", code=403, status="PERMISSION_DENIED"), "TRAINING_TOKEN"),
        (JobNotFound("none", code=404, status="NOT_FOUND"), "--project"),
    ],
)
def test_the_advice_names_the_option_that_helps(error: TrainingError, words: str) -> None:
    assert words in advice(error)


def test_other_errors_say_so_themselves() -> None:
    assert advice(TrainingError("the disk is full")) == ""
