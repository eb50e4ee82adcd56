"""What Airflow is told of the end of a wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout, AirflowTaskTimeout

from container_training.runtime.wait_end import WaitLimit, state_at_end
from training_api.errors import CostLimitReached, JobFailed

EVENT: Any = {"outcome": "REACHED", "job_id": "digits_1", "state": "SUCCEEDED", "message": ""}


def test_a_wait_that_reached_its_goal_returns_the_state() -> None:
    assert state_at_end(EVENT, AssertionError) == "SUCCEEDED"


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"outcome": "TIMED_OUT"}, TimeoutError, "too late"),
        (
            {"outcome": "REFUSED", "message": "no", "error": "AccessDenied"},
            AirflowFailException,
            "AccessDenied: no",
        ),
        ({"outcome": "COST_LIMIT", "message": "it cost 3 EUR"}, CostLimitReached, "3 EUR"),
        ({"state": "FAILED", "message": "exit 3"}, JobFailed, "exit 3"),
    ],
)
def test_every_other_end_is_an_error_that_says_why(
    changes: dict[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        state_at_end({**EVENT, **changes}, lambda: TimeoutError("too late"))


@pytest.mark.parametrize(("is_of_try", "error"), [(True, AirflowTaskTimeout), (False, AirflowSensorTimeout)])
def test_only_the_limit_of_a_try_leaves_the_task_to_its_retries(
    is_of_try: bool, error: type[BaseException]
) -> None:
    assert type(WaitLimit(timedelta(seconds=1), is_of_try).error("late")) is error
