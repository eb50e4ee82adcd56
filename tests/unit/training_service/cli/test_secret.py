"""``secret set | list | rm``: values come in by standard input and never go out."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from training_service.cli.parser import main

VALUE = "a-value-that-nobody-shows"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINING_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "demo")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(VALUE.encode())))
    return tmp_path


def test_a_secret_is_set_listed_and_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["secret", "set", "key"]) == 0
    assert (folder / "demo/key").read_text() == VALUE
    assert main(["secret", "list"]) == 0
    listed = capsys.readouterr()
    assert main(["secret", "rm", "key"]) == 0
    assert main(["secret", "list", "--project", "demo"]) == 0

    assert listed.out.startswith("key\t20")
    assert VALUE not in listed.out + listed.err
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["rm", "absent"], 1, "has no secret 'absent'"),
        (["set", "Key"], 1, "the name of a secret must hold only"),
        (["set", "key", "--project", "../demo"], 1, "is no project's id"),
    ],
)
def test_what_cannot_be_done_says_why(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, text: str
) -> None:
    assert main(["secret", *arguments]) == status

    told = capsys.readouterr().err
    assert text in told
    assert VALUE not in told


def test_a_project_must_be_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")

    assert main(["secret", "list"]) == 2
    assert "which project?" in capsys.readouterr().err
