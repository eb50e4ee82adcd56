"""The report on jobs that begin at noon; times are told in seconds after it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_training.dashboard.service_side.fleet_jobs import FleetJob, Shape
from container_training.dashboard.service_side.fleet_report import (
    BY_DAG,
    MAX_GROUPS,
    WINDOWS,
    Window,
    cost_report,
    fleet_report,
    label_keys,
    waits_by_machine,
)
from tests.support.fakes.job_rows import NOON
from training_api.causes import Cause
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.promised_room import capacity_from
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.fleet.time_buckets import Buckets
from training_api.fleet.wire import Room
from training_api.job.machines import GIB
from training_api.states import JobState

T = NOON.timestamp()
#: 4 cores and 15 GiB; 8 cores and 30 GiB.
SMALL = Shape(TrainingInput.model_validate({"scaleTier": "CUSTOM", "masterType": "n1-standard-4"}))
LARGE = Shape(TrainingInput.model_validate({"scaleTier": "CUSTOM", "masterType": "n1-standard-8"}))
PRICES = PriceList(source="prices", per_second={"n1-standard-4": 0.5}, currency="EUR")
NO_PRICES = PriceList(source="prices", per_second={})
CAPACITY = capacity_from(Room(cpus=16, memory_bytes=60 * GIB, gpus=0, replicas=0), None)
MINUTES = Window(seconds=600, step_seconds=60, cost_seconds=300)


def job(
    created: float,
    prepared: float | None = None,
    started: float | None = None,
    ended: float | None = None,
    **changes: Any,
) -> FleetJob:
    def at(seconds: float | None) -> float | None:
        return None if seconds is None else T + seconds

    fields: dict[str, Any] = {
        "job_id": "job",
        "state": JobState.SUCCEEDED if ended is not None else JobState.RUNNING,
        "labels": {},
        "shape": SMALL,
        "created": T + created,
        "prepared": at(prepared),
        "started": at(started),
        "ended": at(ended),
        "runs": 1.0,
        "is_study": False,
        "cause": None,
    }
    return FleetJob(**(fields | changes))


def report(*jobs: FleetJob, now: float = 600, **changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "capacity": CAPACITY,
        "prices": NO_PRICES,
        "by": BY_DAG,
        "dag_name": lambda label: label.upper(),
    }
    return fleet_report(jobs, MINUTES, T + now, **(given | changes))


def test_room_is_held_from_preparing_until_the_end() -> None:
    use = report(job(0, 60, 120, 300), job(0, 240, 270, None, shape=LARGE))["use"]

    assert use["cpus"]["mean"] == [0, 4, 4, 4, 12, 8, 8, 8, 8, 8]
    assert use["cpus"]["now"] == 8
    assert use["memoryBytes"]["peak"][4] == 45 * GIB
    assert use["replicas"]["peak"] == [0, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    assert "gpus" not in use


def test_tuning_job_holds_what_its_trials_do_and_only_while_it_runs() -> None:
    use = report(job(0, 60, 120, 300, is_study=True, runs=2.5))["use"]

    assert use["cpus"]["mean"][:6] == [0, 0, 10, 10, 10, 0]


def test_queue_is_as_long_as_jobs_wait() -> None:
    cancelled = job(60, ended=180, state=JobState.CANCELLED)
    waits = job(300, state=JobState.QUEUED)
    queue = report(job(0, 120, 130, 200), cancelled, waits)["queue"]

    assert queue["mean"] == [1, 2, 1, 0, 0, 1, 1, 1, 1, 1]
    assert queue["peak"] == queue["mean"]


def test_jobs_that_ended_before_the_window_are_not_counted() -> None:
    found = report(job(-900, -800, -700, -10), job(-900, -800, -700, 30))

    assert found["jobs"] == 1
    assert found["outcomes"] == {"SUCCEEDED": 1, "FAILED": 0, "CANCELLED": 0}


def test_waits_are_told_by_machine_type_the_most_used_first() -> None:
    jobs = [job(0, seconds, seconds + 2 * seconds, 900) for seconds in range(1, 22)]

    found = waits_by_machine([*jobs, job(0, 7, None, shape=LARGE)], since=T)

    assert found == [
        {
            "machine": "n1-standard-4",
            "jobs": 21,
            "queue": {"p50": 11, "p95": 20},
            "prepare": {"p50": 22, "p95": 40},
        },
        {"machine": "n1-standard-8", "jobs": 1, "queue": {"p50": 7, "p95": 7}, "prepare": None},
    ]


def test_wait_that_goes_on_or_ended_before_the_window_is_not_counted() -> None:
    jobs = [job(0, state=JobState.QUEUED), job(-99, -50, -20, 10), job(0, ended=5, state=JobState.CANCELLED)]

    assert waits_by_machine(jobs, since=T) == []


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_percentiles_are_in_order_and_among_the_values(seconds: list[float]) -> None:
    (found,) = waits_by_machine([job(0, wait, wait, wait) for wait in seconds], since=T - 1)

    # Times are seconds since the epoch, of which a float has microseconds.
    assert min(seconds) - 1e-3 <= found["queue"]["p50"] <= found["queue"]["p95"] <= max(seconds) + 1e-3


def test_failures_are_counted_by_cause_with_the_last_job_of_each() -> None:
    def failed(name: str, ended: float, cause: Cause | None) -> FleetJob:
        return job(0, 1, 2, ended, job_id=name, state=JobState.FAILED, cause=cause)

    found = report(
        failed("a", 30, Cause.OUT_OF_MEMORY),
        failed("b", 50, Cause.OUT_OF_MEMORY),
        failed("c", 40, None),
        failed("before", -40, Cause.IMAGE),
        job(0, 1, 2, 30, state=JobState.CANCELLED),
    )["failures"]

    assert [(row["cause"], row["title"], row["jobs"], row["latest"]["id"]) for row in found] == [
        ("OUT_OF_MEMORY", "Out of memory", 2, "b"),
        ("UNKNOWN", "Another reason", 1, "c"),
    ]
    assert found[0]["latest"]["endTime"] == T + 50


def test_no_cost_without_prices() -> None:
    assert report(job(0, 1, 2, 30))["cost"] is None


def test_cost_is_in_the_bucket_in_which_it_was_run_and_by_dag() -> None:
    jobs = [
        job(0, 1, 200, 400, labels={"airflow-dag": "a"}),
        job(0, 1, 500, None, labels={"airflow-dag": "b"}, runs=3.0),
        job(0, 1, 590, None),
        job(0, 1, 10, 30, shape=LARGE),
    ]

    found = report(*jobs, prices=PRICES)["cost"]

    assert found["times"] == [T, T + 300]
    assert found["groups"] == [
        {"name": "B", "amounts": [0, 150], "total": 150},
        {"name": "A", "amounts": [50, 50], "total": 100},
        {"name": "", "amounts": [0, 5], "total": 5},
    ]
    assert (found["total"], found["currency"], found["unpriced"]) == (255, "EUR", 1)


def test_cost_by_label_has_a_group_for_those_without_it() -> None:
    jobs = [job(0, 1, 10, 30, labels={"team": "x"}), job(0, 1, 10, 20)]

    found = report(*jobs, prices=PRICES, by="label:team")["cost"]

    assert [(group["name"], group["total"]) for group in found["groups"]] == [("x", 10), ("", 5)]
    assert found["keys"] == ["team"]


def test_cost_of_what_is_not_among_the_dearest_is_one_sum() -> None:
    jobs = [job(0, 1, 0, 10 + place, labels={"airflow-dag": f"d{place}"}) for place in range(MAX_GROUPS + 3)]

    groups = report(*jobs, prices=PRICES)["cost"]["groups"]

    assert [group["name"] for group in groups] == ["D9", "D8", "D7", "D6", "D5", "D4", "D3", None]
    assert groups[-1]["total"] == pytest.approx((10 + 11 + 12) / 2)


@given(
    st.lists(
        st.tuples(st.integers(-500, 1000), st.integers(0, 900), st.sampled_from("abcdefghij")), max_size=30
    )
)
def test_all_groups_together_cost_what_all_jobs_do(runs: list[tuple[int, int, str]]) -> None:
    jobs = [
        job(-999, -998, start, start + length, labels={"airflow-dag": dag}) for start, length, dag in runs
    ]
    buckets = Buckets(start=T, end=T + 600, seconds=100)

    found = cost_report(jobs, buckets, PRICES, BY_DAG, str)

    seconds = sum(max(min(start + length, 600) - max(start, 0), 0) for start, length, _ in runs)
    assert found is not None
    assert math.isclose(found["total"], 0.5 * seconds, abs_tol=1e-6)


def test_label_keys_are_those_that_people_gave() -> None:
    jobs = [job(0, labels={"airflow-dag": "a", "team": "x"}), job(0, labels={"team": "y", "model": "m"})]

    assert label_keys(jobs) == ["team", "model"]


@pytest.mark.parametrize("name", list(WINDOWS))
def test_windows_have_few_enough_buckets_to_be_read(name: str) -> None:
    window = WINDOWS[name]

    assert len(Buckets.until(T, window.seconds, window.step_seconds).times) <= 200
    assert len(Buckets.until(T, window.seconds, window.cost_seconds).times) <= 32
