"""Tables of jobs: rows, totals, trials, and the text that tells of changes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from container_engines.memory.scripted_reports import ScriptedReport
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.causes import Cause
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.dialects.ml_v1.resources import (
    Goal,
    HyperparameterSpec,
    Job,
    ParameterSpec,
    ParameterType,
    ReplicaConfig,
    ScaleTier,
    TrainingInput,
)
from training_api.dialects.registry import DIALECTS
from training_api.errors import InvalidFilter, InvalidRequest
from training_api.fleet.wire import JobReason, SearchJobsRequest
from training_api.states import JobState
from training_service.store.ended.ended_jobs import EndedJob, EndedJobs
from training_service.store.jobs.job_search import SEARCHED_TOO, JobSearch
from training_service.store.tables import jobs

TAG = "accuracy"


@pytest.fixture
def search(world: World) -> JobSearch:
    return JobSearch(
        world.database,
        world.store.queue_positions,
        DIALECTS,
        {**ML_V1.filter_fields, **SEARCHED_TOO},
        world.engine.clock,
    )


def ask(search: JobSearch, **request: Any) -> SearchJobsResponse:
    """What a client reads of the answer: every row must be one."""
    return SearchJobsResponse.model_validate(search.search(PROJECT, SearchJobsRequest(**request)))


def submit(world: World, job_id: str, dag: str = "", **fields: Any) -> None:
    labels = {"airflow-dag": dag} if dag else None
    training = TrainingInput(**{"master_config": ReplicaConfig(image_uri=IMAGE), **fields})
    world.jobs.create(PROJECT, Job(job_id=job_id, labels=labels, training_input=training))


def end_all(world: World) -> None:
    for _ in range(20):
        world.settle()
        world.engine.advance(1)
    world.settle()


def names(answer: SearchJobsResponse) -> list[str]:
    return [row.job_id for row in answer.jobs]


def test_a_job_is_found_by_a_part_of_the_name_that_it_is_shown_by(world: World, search: JobSearch) -> None:
    submit(world, "job_7")
    submit(world, "nightly_digits")
    with world.database.begin() as connection:
        named = sa.update(jobs).where(jobs.c.job_id == "job_7").values(request={"displayName": "Digits-7"})
        connection.execute(named)

    found = ask(search, filter='(jobId:"digits" OR displayName:"*digits*")')

    assert [row.job_id for row in found.jobs] == ["nightly_digits", "job_7"]
    assert ask(search, filter='displayName:"*other*"').total == 0


def test_a_row_of_a_failed_job_has_the_reason_and_one_of_a_good_job_has_none(
    world: World, search: JobSearch
) -> None:
    world.add_image(Behaviour(exit_code=3))
    submit(world, "bad")
    end_all(world)
    world.add_image(Behaviour())
    submit(world, "good")
    end_all(world)

    good, bad = ask(search).jobs

    assert good.reason is None
    assert bad.reason == JobReason(cause=Cause.PROGRAM_ERROR, replica="master 0", exit_code=3)


def test_a_row_has_the_times_and_the_price_of_a_job(world: World, search: JobSearch) -> None:
    submit(
        world,
        "job",
        args=["--password", "secret"],
        scale_tier=ScaleTier.CUSTOM,
        master_type="n1-standard-4",
    )
    (queued,) = ask(search).jobs
    world.add_image(Behaviour(run_seconds=5))
    world.settle()
    world.engine.advance(2)

    (row,) = ask(search).jobs

    assert queued.state is JobState.QUEUED
    assert queued.job_position == 1
    assert queued.billed_seconds == 0
    assert row.prepare_time
    assert row.start_time
    assert row.end_time is None
    assert row.billed_seconds == pytest.approx(2)
    assert row.training_input.master_type == "n1-standard-4"
    assert row.training_input.args is None
    assert row.job_position is None


def test_pages_and_totals(world: World, search: JobSearch) -> None:
    for number in range(7):
        submit(world, f"job_{number}", dag="retrain" if number % 2 else "other")
        world.engine.advance(1)

    first = ask(search, page_size=3)
    second = ask(search, page_size=3, page_token=first.next_page_token)
    last = ask(search, page_size=3, page_token=second.next_page_token)

    assert names(first) + names(second) + names(last) == [f"job_{number}" for number in reversed(range(7))]
    assert last.next_page_token == ""
    assert first.total == last.total == 7
    assert first.states == {JobState.QUEUED: 7}
    only = ask(search, dags=["retrain"], page_size=1)
    assert (names(only), only.total) == (["job_5"], 3)
    assert ask(search, dags=[]).total == 0
    assert ask(search, filter="labels.airflow-dag=other AND state=QUEUED").total == 4
    assert len(ask(search, page_size=0).jobs) == len(ask(search, page_size=10**9).jobs) == 7


def test_jobs_that_ended_before_are_left_out(world: World, search: JobSearch) -> None:
    world.add_image(Behaviour(run_seconds=1))
    submit(world, "old")
    end_all(world)
    ended = world.get("old").end_time
    world.engine.advance(60)
    submit(world, "new")

    assert ended is not None
    assert names(ask(search, changed_after=ended + timedelta(seconds=1))) == ["new"]
    assert names(ask(search, changed_after=ended - timedelta(seconds=1))) == ["new", "old"]


def test_filter_that_cannot_be_read(search: JobSearch) -> None:
    with pytest.raises(InvalidFilter):
        ask(search, filter="nonsense=")
    with pytest.raises(InvalidRequest, match="pageToken: page token 'x'"):
        ask(search, page_token="x")
    with pytest.raises(InvalidRequest, match="pageSize: must be from 1 to 10000, or 0 for 50; got -1"):
        ask(search, page_size=-1)


def test_tuning_job_has_the_sums_of_its_trials(world: World, search: JobSearch) -> None:
    submit(
        world,
        "study",
        hyperparameters=HyperparameterSpec(
            hyperparameter_metric_tag=TAG,
            goal=Goal.MAXIMIZE,
            max_trials=2,
            max_parallel_trials=1,
            params=[ParameterSpec(parameter_name="x", type=ParameterType.DOUBLE, min_value=0, max_value=1)],
        ),
    )
    empty = ask(search).jobs[0]
    world.add_image(
        Behaviour(run_seconds=3, reports=(ScriptedReport(after_seconds=1, tag=TAG, step=1, value=0.5),))
    )
    end_all(world)

    (row,) = ask(search).jobs

    assert empty.trials is not None
    assert (empty.trials.total, empty.billed_seconds) == (0, 0)
    assert row.trials is not None
    assert (row.trials.total, row.trials.ended) == (2, 2)
    assert row.billed_seconds == pytest.approx(6)
    assert row.training_input.hyperparameters is not None
    assert row.training_input.hyperparameters.params is None


def test_version_changes_with_each_state_and_only_then(world: World, search: JobSearch) -> None:
    seen = [search.version(PROJECT)]
    submit(world, "job")
    seen.append(search.version(PROJECT))
    assert search.version(PROJECT) == seen[-1]
    world.add_image(Behaviour(run_seconds=1))
    while world.state() is not JobState.SUCCEEDED:
        before = world.state()
        world.step()
        world.engine.advance(0.5)
        if world.state() is not before:
            seen.append(search.version(PROJECT))
    assert len(set(seen)) == len(seen) == 5


def test_the_version_changes_when_a_job_is_removed(world: World, search: JobSearch) -> None:
    world.add_image(Behaviour(run_seconds=1))
    for job_id in ("first", "last"):  # the one that ended last shows by its time of the end
        submit(world, job_id)
        end_all(world)
    before = search.version(PROJECT)
    first = world.store.get(PROJECT, "first")

    removed = EndedJobs(world.database).remove_rows(
        [EndedJob(uid=first.uid, project=PROJECT, job_id="first")]
    )

    assert removed == 1
    assert search.version(PROJECT) != before


def test_the_version_is_found_by_indices(world: World, search: JobSearch) -> None:
    """It is asked for once a second, whatever the number of jobs that have ended."""
    statements: list[str] = []
    sa.event.listen(world.database, "before_cursor_execute", lambda *call: statements.append(call[2]))
    search.version(PROJECT)

    plans = []
    with world.database.connect() as connection:
        for statement in [each for each in statements if each.startswith("SELECT")]:
            parameters = ("x",) * statement.count("?")
            plans += connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()

    assert plans
    assert not any(row.detail == "SCAN jobs" for row in plans), plans
