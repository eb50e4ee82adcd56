from __future__ import annotations

import pytest

from container_training.dashboard.views.views import (
    Origin,
    cost_view,
    current_phase,
    job_view,
    machines_text,
    phase_seconds,
    state_counts,
)
from tests.support.fakes.job_rows import NOON, after, make_row
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.states import JobState

PRICES = PriceList(source="prices", per_second={"n1-standard-4": 0.01}, currency="EUR")
NONE = PriceList(source="prices", per_second={})
QUEUED = make_row(state=JobState.QUEUED, prepare_time=None, start_time=None, job_position=3)


@pytest.mark.parametrize(
    ("row", "phase", "seconds"),
    [
        (QUEUED, "queued", (10, None, None)),
        (make_row(state=JobState.PREPARING, start_time=None), "preparing", (2, 8, None)),
        (make_row(), "running", (2, 3, 5)),
        (make_row(state=JobState.CANCELLING), "running", (2, 3, 5)),
        (make_row(state=JobState.SUCCEEDED, end_time=after(9)), None, (2, 3, 4)),
        (make_row(state=JobState.FAILED, start_time=None, end_time=after(6)), None, (2, 4, None)),
        (
            make_row(state=JobState.CANCELLED, prepare_time=None, start_time=None, end_time=after(4)),
            None,
            (4, None, None),
        ),
    ],
)
def test_seconds_of_each_phase_and_the_one_that_goes_on(
    row: JobRow, phase: str | None, seconds: tuple[float | None, ...]
) -> None:
    assert current_phase(row) == phase
    assert tuple(phase_seconds(row, after(10)).values()) == seconds


def test_clock_that_is_behind_the_services_makes_no_negative_time() -> None:
    assert phase_seconds(make_row(), NOON) == {"queued": 2, "preparing": 3, "running": 0}


def test_cost_is_the_billed_time_at_the_price_and_grows_while_it_runs() -> None:
    assert cost_view(make_row(billed_seconds=50), PRICES) == {
        "amount": 0.5,
        "perSecond": 0.01,
        "currency": "EUR",
    }
    ended = make_row(state=JobState.SUCCEEDED, end_time=after(9), billed_seconds=4)
    assert cost_view(ended, PRICES) == {"amount": 0.04, "perSecond": 0.0, "currency": "EUR"}


def test_cost_of_trials_side_by_side_is_left_to_the_service_to_count() -> None:
    row = make_row(billed_seconds=50, trials={"total": 8, "ended": 3})

    assert cost_view(row, PRICES) == {"amount": 0.5, "perSecond": 0.0, "currency": "EUR"}


def test_no_cost_is_shown_where_a_price_is_missing() -> None:
    assert cost_view(make_row(), NONE) is None


@pytest.mark.parametrize(
    ("training", "text"),
    [
        ({}, "BASIC (n1-standard-4)"),
        ({"scaleTier": "STANDARD_1"}, "STANDARD_1"),
        ({"scaleTier": "CUSTOM", "masterType": "n1-standard-8"}, "n1-standard-8"),
        (
            {
                "scaleTier": "CUSTOM",
                "masterType": "n1-standard-8",
                "workerType": "n1-standard-4",
                "workerCount": "2",
                "parameterServerType": "n1-highmem-8",
                "parameterServerCount": "1",
            },
            "n1-standard-8 + 2 x n1-standard-4 workers + 1 x n1-highmem-8 parameter server",
        ),
    ],
)
def test_machines_read_as_a_sum(training: dict[str, str], text: str) -> None:
    assert machines_text(TrainingInput.model_validate(training)) == text


@pytest.mark.parametrize("state", list(JobState))
def test_only_a_job_that_goes_on_can_be_cancelled_and_only_with_the_right(state: JobState) -> None:
    row = make_row(state=state)
    allowed = job_view(row, after(10), NONE, origin=None, may_cancel=True)["canCancel"]
    refused = job_view(row, after(10), NONE, origin=None, may_cancel=False)["canCancel"]

    assert allowed is (state in (JobState.QUEUED, JobState.PREPARING, JobState.RUNNING))
    assert refused is False


def test_row_names_its_run_and_hides_the_labels_that_say_the_same() -> None:
    row = make_row(labels={"airflow-dag": "my-dag", "airflow-owner": "secret-token", "team": "a"})
    origin = Origin(dag_id="My.Dag", run_id="manual__1", task_id="submit")

    view = job_view(row, after(10), NONE, origin=origin, may_cancel=False)

    assert view["labels"] == {"team": "a"}
    assert view["origin"] == {
        "dag": "My.Dag",
        "run": "manual__1",
        "task": "submit",
        "mapIndex": None,
        "isKnown": True,
    }
    assert "secret-token" not in str(view)


def test_job_of_a_dag_that_is_gone_keeps_its_label() -> None:
    view = job_view(make_row(labels={"airflow-dag": "gone"}), after(10), NONE, origin=None, may_cancel=False)

    assert view["origin"] == {"dag": "gone", "isKnown": False}


def test_counts_have_every_state_in_the_order_of_a_jobs_life() -> None:
    counts = state_counts({JobState.FAILED: 2, JobState.QUEUED: 1})

    assert list(counts) == list(JobState)
    assert counts["FAILED"] == 2
    assert counts["RUNNING"] == 0
