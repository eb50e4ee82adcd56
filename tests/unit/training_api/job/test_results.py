"""How long a job was in each state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from training_api.job.results import StateSeconds, StateTimes

START = datetime(2026, 1, 31, 12, tzinfo=UTC)


def make_times(preparing: float | None, running: float | None, ended: float) -> StateTimes:
    """Return the times of a job that was queued at second 0."""
    return StateTimes(
        queued_at=START,
        preparing_at=None if preparing is None else START + timedelta(seconds=preparing),
        running_at=None if running is None else START + timedelta(seconds=running),
        ended_at=START + timedelta(seconds=ended),
    )


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        pytest.param((1, 4, 14), (1, 3, 10, 14), id="ran"),
        pytest.param((1, None, 4), (1, 3, 0, 4), id="ended while it was prepared"),
        pytest.param((None, None, 5), (5, 0, 0, 5), id="ended in the queue"),
        pytest.param((None, 4, 14), (4, 0, 10, 14), id="preparation unknown"),
        pytest.param((0, 0, 0), (0, 0, 0, 0), id="in no time"),
        pytest.param((0.0001, 0.1239, 1.5), (0.0, 0.124, 1.376, 1.5), id="rounded to milliseconds"),
        pytest.param((1, 4, 3), (1, 3, 0, 3), id="a clock that went back counts 0"),
    ],
)
def test_the_time_in_each_state(
    times: tuple[float | None, float | None, float], expected: tuple[float, float, float, float]
) -> None:
    queued, preparing, running, total = expected

    assert make_times(*times).seconds() == StateSeconds(
        queued=queued, preparing=preparing, running=running, total=total
    )


@settings(deadline=None)
@given(steps=st.lists(st.integers(0, 10**6), min_size=3, max_size=3))
def test_the_states_of_a_job_that_ran_add_up_to_its_total(steps: list[int]) -> None:
    queued, preparing, running = steps

    seconds = make_times(queued, queued + preparing, sum(steps)).seconds()

    assert (seconds.queued, seconds.preparing, seconds.running) == (queued, preparing, running)
    assert seconds.total == sum(steps)


def test_seconds_are_plain_json() -> None:
    seconds = make_times(1, 4, 14).seconds()

    assert seconds.model_dump(mode="json") == {
        "queued": 1.0,
        "preparing": 3.0,
        "running": 10.0,
        "total": 14.0,
    }


def test_a_result_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="waiting"):
        StateSeconds.model_validate({"queued": 1, "preparing": 1, "running": 1, "total": 3, "waiting": 1})
