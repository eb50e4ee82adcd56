"""How states, times and texts look in a table."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from training_api.command_line.cells import duration_text, moment_text, printable, state_text
from training_api.states import JobState


@pytest.mark.parametrize("state", JobState)
def test_every_state_has_its_name(state: JobState) -> None:
    assert state_text(state).plain == state.value


def test_a_job_without_a_state_has_an_empty_cell() -> None:
    assert state_text(None).plain == ""


def test_a_time_is_in_the_readers_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert moment_text(datetime(2026, 11, 22, 23, 30, tzinfo=UTC)) == "2026-11-23 01:30:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_no_time_is_an_empty_cell() -> None:
    assert moment_text(None) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(65, "0:01:05"), (0.4, "0:00:00"), (-3, "0:00:00"), (90_061, "1 day, 1:01:01")]
)
def test_a_duration_has_hours_minutes_and_seconds(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_control_characters_are_shown_and_not_obeyed() -> None:
    assert printable("evil \x1b[2J\r\x07\x9b") == "evil \\x1b[2J\\x0d\\x07\\x9b"


def test_tabs_and_lines_stay() -> None:
    assert printable("a\tb\nc") == "a\tb\nc"
