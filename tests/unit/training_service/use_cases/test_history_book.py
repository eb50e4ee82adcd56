"""The past of jobs that begin at noon; times are told in seconds after it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.fakes.stored_jobs import store_job
from tests.support.fakes.world import World
from training_api.causes import Cause
from training_api.errors import EngineUnavailable
from training_api.fleet.history import MAX_GROUPS, FleetHistory, FleetHistoryRequest, MachineWaits
from training_api.job.capacity import Capacity
from training_api.job.machines import GIB, Resources
from training_api.states import JobState
from training_service.store.database import to_us
from training_service.use_cases import history_book
from training_service.use_cases.history_book import HistoryBook

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
T = NOON.timestamp()
#: 8 cores and 30 GiB; other jobs have 4 cores and 15 GiB.
LARGE = {"scaleTier": "CUSTOM", "masterType": "n1-standard-8"}
PRICES = {"n1-standard-4": 0.5}
_ROOM = Resources(cpus=16, memory_bytes=60 * GIB, gpus=0)
MINUTES = {"window_seconds": 600, "step_seconds": 60, "cost_step_seconds": 300}

#: Stores a job: created, left the queue, was RUNNING, ended.
Store = Callable[..., str]


@pytest.fixture
def database(world: World) -> sa.Engine:
    return world.database


@pytest.fixture
def job(database: sa.Engine) -> Store:
    def store(*times: float | None, job_id: str = "", **columns: Any) -> str:
        created, prepared, started, ended = [
            None if seconds is None else to_us(NOON + timedelta(seconds=seconds))
            for seconds in (*times, None, None, None)[:4]
        ]
        assert created is not None
        state = JobState.SUCCEEDED if ended else JobState.RUNNING if started else JobState.QUEUED
        name = job_id or f"job_{len(stored)}"
        stored.append(name)
        fields = {"state": state, "preparing_us": prepared, "running_us": started, "ended_us": ended}
        store_job(database, name, created, **(fields | columns))
        return name

    stored: list[str] = []
    return store


@pytest.fixture
def report(database: sa.Engine) -> Callable[..., FleetHistory]:
    """Return the past of ten minutes, until ten minutes after noon."""

    def ask(now: float = 600, **request: Any) -> FleetHistory:
        book = HistoryBook(
            database,
            lambda: Capacity(each=_ROOM, total=_ROOM),
            lambda: NOON + timedelta(seconds=now),
        )
        return book.of("p", FleetHistoryRequest(**(MINUTES | request)))

    return ask


Report = Callable[..., FleetHistory]


def test_room_is_held_from_preparing_until_the_end(job: Store, report: Report) -> None:
    job(0, 60, 120, 300)
    job(0, 240, 270, None, training_input=LARGE)

    use = report().use

    assert use["cpus"].mean == [0, 4, 4, 4, 12, 8, 8, 8, 8, 8]
    assert use["cpus"].now == 8
    assert use["memoryBytes"].peak[4] == 45 * GIB
    assert use["replicas"].peak == [0, 1, 1, 1, 2, 1, 1, 1, 1, 1]
    assert "gpus" not in use


def test_jobs_that_follow_each_other_at_once_do_not_add_up(job: Store, report: Report) -> None:
    job(0, 0, 0, 30)
    job(0, 30, 30, 60)
    job(0, 30, 30, 30)

    cpus = report().use["cpus"]

    assert (cpus.mean[0], cpus.peak[0], cpus.peak[1]) == (4, 4, 0)


def test_gpus_are_shown_where_a_job_had_some(job: Store, database: sa.Engine, report: Report) -> None:
    config = {"acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}}
    job(0, 60, 120, 300, training_input={**LARGE, "masterConfig": config})

    def nobody_answers() -> Capacity:
        raise EngineUnavailable("gone")

    book = HistoryBook(database, nobody_answers, lambda: NOON + timedelta(seconds=600))
    found = book.of("p", FleetHistoryRequest(**MINUTES))

    assert found.use["gpus"].peak[1] == 2
    assert [row.machine for row in found.waits] == ["n1-standard-8 + 2 x NVIDIA_TESLA_T4"]


def test_tuning_job_holds_what_its_trials_do_and_only_while_it_runs(
    job: Store, database: sa.Engine, report: Report
) -> None:
    search = {"scaleTier": "CUSTOM", "masterType": "n1-standard-4", "hyperparameters": {"maxTrials": 3}}
    job(0, 60, 120, 300, job_id="study", training_input=search)
    # 450 s of trials in 180 s.
    for number, (started, ended) in enumerate([(120, 300), (120, 300), (150, 240)], 1):
        job(120, 120, started, ended, job_id=f"uid-study/{number}", study_uid="uid-study")

    found = report(prices=PRICES)

    assert found.use["cpus"].mean[:6] == [0, 0, 10, 10, 10, 0]
    assert found.jobs == 1
    assert found.cost is not None
    assert found.cost.total == pytest.approx(450 * 0.5)


def test_queue_is_as_long_as_jobs_wait(job: Store, report: Report) -> None:
    job(0, 120, 130, 200)
    job(60, None, None, 180, state="CANCELLED")
    job(300)

    found = report()

    assert found.queue.mean == found.queue.peak == [1, 2, 1, 0, 0, 1, 1, 1, 1, 1]
    assert found.oldest_queued == T + 300


def test_jobs_that_ended_before_the_window_are_not_counted(job: Store, report: Report) -> None:
    job(-900, -800, -700, -10)
    job(-900, -800, -700, 30)

    found = report()

    assert found.jobs == 1
    assert found.outcomes == {"SUCCEEDED": 1, "FAILED": 0, "CANCELLED": 0}


def test_waits_are_told_by_machine_type_the_most_used_first(job: Store, report: Report) -> None:
    for seconds in range(1, 22):
        job(0, seconds, seconds + 2 * seconds, 900)
    job(0, 7, None, training_input=LARGE)

    assert [row.to_wire() for row in report(now=1000, window_seconds=1200).waits] == [
        {
            "machine": "n1-standard-4",
            "jobs": 21,
            "queue": {"p50": 11, "p95": 20},
            "prepare": {"p50": 22, "p95": 40},
        },
        {"machine": "n1-standard-8", "jobs": 1, "queue": {"p50": 7, "p95": 7}},
    ]


def test_wait_that_goes_on_or_ended_before_the_window_is_not_counted(job: Store, report: Report) -> None:
    job(0)
    job(-99, -50, -20, 10)
    job(0, None, None, 5, state="CANCELLED")

    assert report().waits == []


def test_clock_that_went_back_makes_no_wait_below_zero(job: Store, report: Report) -> None:
    job(10, 5, 4, 30)

    (row,) = report().waits

    assert row == MachineWaits.model_validate(
        {
            "machine": "n1-standard-4",
            "jobs": 1,
            "queue": {"p50": 0, "p95": 0},
            "prepare": {"p50": 0, "p95": 0},
        }
    )


def test_failures_are_counted_by_cause_with_the_last_job_of_each(job: Store, report: Report) -> None:
    for name, ended, cause in [("a", 30, "OUT_OF_MEMORY"), ("b", 50, "OUT_OF_MEMORY"), ("z", -40, "IMAGE")]:
        job(-99, -98, -97, ended, job_id=name, state="FAILED", reason={"cause": cause})
    job(0, 1, 2, 40, job_id="c", state="FAILED")
    job(0, 1, 2, 41, job_id="d", state="FAILED", reason={"cause": "OF_THE_FUTURE"})
    job(0, 1, 2, 30, state="CANCELLED", reason={"cause": "CANCELLED"})

    found = report().failures

    assert [(row.cause, row.jobs, row.latest.id, row.latest.end_time - T) for row in found] == [
        (Cause.OUT_OF_MEMORY, 2, "b", 50),
        (Cause.UNKNOWN, 2, "d", 41),
    ]


def test_no_cost_without_prices(job: Store, report: Report) -> None:
    job(0, 1, 2, 30)

    assert report().cost is None


def test_cost_is_in_the_bucket_in_which_it_was_run_and_by_dag(job: Store, report: Report) -> None:
    job(0, 1, 200, 400, labels={"airflow-dag": "a"})
    job(0, 1, 400, None, labels={"airflow-dag": "b"})
    job(0, 1, 590, None)
    job(0, 1, 10, 30, training_input=LARGE)

    cost = report(prices=PRICES).cost

    assert cost is not None
    assert cost.times == [T, T + 300]
    assert [(group.name, group.amounts, group.total) for group in cost.groups] == [
        ("a", [50, 50], 100),
        ("b", [0, 100], 100),
        ("", [0, 5], 5),
    ]
    assert (cost.total, cost.unpriced, cost.keys) == (205, 1, [])


def test_cost_by_label_has_a_group_for_those_without_it(job: Store, report: Report) -> None:
    job(0, 1, 10, 30, labels={"team": "x", "airflow-dag": "d"})
    job(0, 1, 10, 20)

    cost = report(prices=PRICES, cost_label="team").cost

    assert cost is not None
    assert [(group.name, group.total) for group in cost.groups] == [("x", 10), ("", 5)]
    assert cost.keys == ["team"]


def test_cost_of_what_is_not_among_the_dearest_is_one_sum(job: Store, report: Report) -> None:
    for place in range(MAX_GROUPS + 3):
        job(0, 1, 0, 10 + place, labels={"airflow-dag": f"d{place}"})
    # It has no price, and so no place among them.
    job(0, 1, 0, 500, labels={"airflow-dag": "unpriced"}, training_input=LARGE)

    cost = report(prices=PRICES).cost

    assert cost is not None
    assert [group.name for group in cost.groups] == ["d9", "d8", "d7", "d6", "d5", "d4", "d3", None]
    assert cost.groups[-1].total == pytest.approx((10 + 11 + 12) / 2)


def test_models_have_their_last_good_job_however_old_and_the_last_that_failed(
    job: Store, report: Report
) -> None:
    long_ago = -90 * 86_400
    of_model = {"labels": {"model": "m"}}
    job(long_ago, long_ago, long_ago, long_ago + 5, job_id="older", **of_model)
    job(long_ago, long_ago, long_ago, long_ago + 9, job_id="newer", **of_model)
    job(0, 1, 2, 3, job_id="failed", state="FAILED", **of_model)
    job(0, 1, 2, 4, job_id="cancelled", state="CANCELLED", **of_model)
    job(0, 1, 2, None, job_id="runs", **of_model)
    job(0, 1, 2, 3, labels={"model": ""})

    (model,) = report().models

    assert model.last_good is not None
    assert (model.model, model.last_good.id, model.latest.id) == ("m", "newer", "failed")
    assert model.last_good.end_time == T + long_ago + 9


def test_jobs_that_ended_long_ago_are_not_read_for_each_report_and_new_ends_are(
    job: Store, database: sa.Engine
) -> None:
    def store(job_id: str, ended: float, model: str) -> None:
        job(ended - 3, ended - 2, ended - 1, ended, job_id=job_id, labels={"model": model})

    def models() -> dict[str, str]:
        return {each.model: each.latest.id for each in book.of("p", FleetHistoryRequest(**MINUTES)).models}

    book = HistoryBook(database, lambda: Capacity(each=_ROOM, total=_ROOM), lambda: NOON)
    store("first", -3600, "m")
    assert models() == {"m": "first"}

    store("old", -1800, "of long ago")  # it was not there when the list was read, and is not looked for
    store("second", 5, "m")
    store("new", 6, "n")

    assert models() == {"n": "new", "m": "second"}


def test_dags_decide_which_jobs_count(job: Store, report: Report) -> None:
    for dag in ("mine", "theirs"):
        labels = {"airflow-dag": dag, "model": f"of_{dag}", "team": dag}
        job(0, 1, 2, 30, job_id=f"good_{dag}", labels=labels)
        job(0, 1, 2, 30, job_id=f"bad_{dag}", labels=labels, state="FAILED", training_input=LARGE)
        job(7, labels=labels)
    job(5)

    everything, mine, nothing = (
        report(dags=dags, prices=PRICES, cost_label="team") for dags in (None, ["mine", "no_such"], [])
    )

    assert (everything.jobs, mine.jobs, nothing.jobs) == (7, 3, 0)
    assert (everything.oldest_queued, mine.oldest_queued, nothing.oldest_queued) == (T + 5, T + 7, None)
    assert mine.outcomes == {"SUCCEEDED": 1, "FAILED": 1, "CANCELLED": 0}
    assert everything.queue.peak[1:] == [3] * 9
    assert mine.queue.peak[1:] == [1] * 9
    assert mine.use["replicas"].peak == [2, *[0] * 9]
    assert [row.jobs for row in mine.waits] == [1, 1]
    assert "theirs" not in mine.model_dump_json()
    assert nothing == nothing.model_copy(
        update={
            "waits": [],
            "failures": [],
            "models": [],
            "use": everything.use | nothing.use,
            "uncounted": 0,
        }
    )
    assert (nothing.queue.peak, nothing.use["cpus"].peak) == ([0] * 10, [0] * 10)


def test_jobs_of_another_project_count_nowhere(job: Store, report: Report) -> None:
    job(0, 1, 2, 30, project="other", labels={"model": "m"})
    job(0, project="other")

    found = report()

    assert (found.jobs, found.models, found.waits, found.oldest_queued) == (0, [], [], None)


def test_jobs_on_rare_machines_are_counted_and_said_to_be_counted_alone(
    job: Store, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_book, "MAX_MACHINES", 1)
    for _ in range(2):
        job(0, 1, 2, 30)
    job(0, 1, 2, 30, training_input=LARGE)

    found = report(prices={"n1-standard-4": 1, "n1-standard-8": 1})

    assert (found.jobs, found.uncounted, found.outcomes[JobState.SUCCEEDED]) == (3, 1, 3)
    assert [row.machine for row in found.waits] == ["n1-standard-4"]
    assert found.cost is not None
    assert (found.cost.total, found.cost.unpriced) == (56, 1)


@pytest.mark.parametrize("column", ["labels", "spec", "reason"])
@pytest.mark.parametrize("text", ["[", "null", "3", '["model"]', '"x"'])
def test_a_row_that_cannot_be_read_counts_as_far_as_it_can(
    job: Store, database: sa.Engine, report: Report, column: str, text: str
) -> None:
    job(0, 1, 2, 30, job_id="broken", state="FAILED", labels={"airflow-dag": "d", "model": "m"})
    job(0, 1, 2, 30, job_id="other", labels={"airflow-dag": "d", "model": "m"})
    job(0, 1, 2, 30, job_id="of_the_future", state="PAUSED")
    with database.begin() as connection:
        # Names of this file.
        statement = f"UPDATE jobs SET {column} = ? WHERE job_id = 'broken'"  # noqa: S608
        connection.exec_driver_sql(statement, (text,))

    found = report(prices=PRICES)

    assert (found.jobs, found.outcomes[JobState.FAILED]) == (3, 2)
    assert [row.id for row in [found.models[0].last_good] if row] == ["other"]
    assert report(dags=["d"]).outcomes[JobState.SUCCEEDED] == 1
