"""``orphans``: what the command needs to know, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from container_training.cli import orphans
from container_training.cli.parser import main
from container_training.work.orphans.orphans import Orphan, Verdict
from tests.support.fakes.fake_service import make_job
from training_api.command_line.screen import Screen

FOUND = Orphan(job=make_job(job_id="digits_1"), verdict=Verdict.ORPHAN, why="its wait \x1b[2J failed")
Show = Callable[..., tuple[str, str]]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    def show(*found: Orphan, cancelled: set[str] = frozenset(), as_json: bool = False) -> Any:
        orphans._show(list(found), set(cancelled), Screen(as_json=as_json))
        return capsys.readouterr()

    return show


@pytest.mark.parametrize(
    ("environment", "arguments", "words"),
    [
        ({"GOOGLE_CLOUD_PROJECT": ""}, (), "--project"),
        ({}, ("--airflow", "localhost:8080"), "Airflow's address must be a URL"),
        ({"AIRFLOW_TOKEN": ""}, (), "AIRFLOW_TOKEN, or AIRFLOW_USER and AIRFLOW_PASSWORD"),
        ({"AIRFLOW_TOKEN": "", "AIRFLOW_USER": "finder"}, (), "AIRFLOW_PASSWORD"),
    ],
)
def test_an_incomplete_command_is_refused(
    environment: dict[str, str],
    arguments: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = {"GOOGLE_CLOUD_PROJECT": "p", "AIRFLOW_TOKEN": "t", "AIRFLOW_USER": "", "AIRFLOW_PASSWORD": ""}
    for name, value in (whole | environment).items():
        monkeypatch.setenv(name, value)

    assert main(["orphans", *arguments]) == 2

    assert words in capsys.readouterr().err


def test_the_table_says_why_and_what_was_done(show: Show) -> None:
    out, _ = show(FOUND, cancelled={"digits_1"})

    heading, row = out.splitlines()
    assert heading.split() == ["JOB_ID", "STATE", "CREATED", "VERDICT", "DONE", "WHY"]
    assert row.startswith("digits_1")
    assert row.endswith("cancelled  its wait \\x1b[2J failed")


def test_the_document_has_a_row_a_job(show: Show) -> None:
    out, _ = show(FOUND, as_json=True)

    (row,) = json.loads(out)["orphans"]
    assert row["jobId"] == "digits_1"
    assert row["verdict"] == "ORPHAN"
    assert row["cancelled"] is False


def test_no_orphans_is_no_result(show: Show) -> None:
    out, err = show()

    assert out == ""
    assert err.startswith("no orphans")
