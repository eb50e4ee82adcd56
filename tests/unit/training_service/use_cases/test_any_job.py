"""One job of any dialect: what is told of it, and its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.support.fakes.studies import Tuning, report
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.job_rows import JobDetail
from training_api.dialects.registry import DIALECTS
from training_api.errors import JobNotFound
from training_api.fleet.job_detail import trial_rows
from training_api.job.dialect import Dialects
from training_api.states import JobState
from training_service.store.jobs.job_search import JobSearch
from training_service.store.pipelines.pipeline_store import PipelineStore
from training_service.store.tables import jobs
from training_service.use_cases.any_job import AnyJob
from training_service.use_cases.jobs import Jobs


def any_job_of(world: World, *spoken: Jobs, dialects: Dialects = DIALECTS) -> AnyJob:
    search = JobSearch(world.database, world.store.queue_positions, dialects, ML_V1.filter_fields)
    return AnyJob(world.store, search, PipelineStore(world.database), spoken)


def detail(world: World, job_id: str = "job") -> JobDetail:
    return JobDetail.model_validate(any_job_of(world, world.ml_v1_jobs).detail(PROJECT, job_id))


@pytest.mark.parametrize(("task_name", "said"), [("", "master 0"), ("workerpool0-0", "workerpool0-0")])
def test_a_replica_at_fault_is_named_as_its_dialect_does(
    world: World, monkeypatch: pytest.MonkeyPatch, task_name: str, said: str
) -> None:
    if task_name:
        named = replace(ML_V1, task_name=lambda replica: task_name)
        monkeypatch.setattr(world.ml_v1_jobs, "_dialect", named)
    world.add_image(Behaviour(run_seconds=5, exit_code=3))
    world.submit()
    world.settle()
    world.engine.advance(6)
    world.settle()

    found = detail(world)

    assert found.job.state is JobState.FAILED
    assert found.job.reason is not None
    assert (found.job.reason.replica, found.job.reason.exit_code) == (said, 3)


def test_trials_have_their_parameters_and_their_finite_measurement(tuning: Tuning) -> None:
    world = tuning.world
    tuning.submit(max_trials=2, max_parallel_trials=2)
    world.settle()
    first, second = sorted(
        (job for job in world.store.list_active() if job.trial), key=lambda job: job.trial_id
    )
    report(world, first.uid, [0.5, 0.9])
    report(world, second.uid, [float("nan")])

    found = detail(world)

    assert found.study is not None
    assert [(trial.trial_id, trial.objective) for trial in found.trials] == [("1", 0.9), ("2", None)]
    names = {each.name for each in found.study.spec.parameters}
    assert all(set(trial.parameters) == names for trial in found.trials)
    rows = trial_rows(found.trials, datetime.now(UTC))
    assert [row.objective for row in rows] == [0.9, None]


def test_a_job_whose_specification_cannot_be_read_is_told_all_the_same(world: World) -> None:
    world.submit()
    with world.database.begin() as connection:
        connection.execute(sa.update(jobs).values(spec={}))

    found = detail(world)

    assert (found.job.job_id, found.pools, found.name) == ("job", [], f"projects/{PROJECT}/jobs/job")


def test_a_job_of_a_dialect_that_is_not_spoken_is_not_there(world: World) -> None:
    world.submit()

    with pytest.raises(JobNotFound, match="dialect 'ml_v1', which this service does not speak"):
        any_job_of(world).detail(PROJECT, "job")


def test_an_id_of_any_length_is_said_in_a_line(world: World) -> None:
    with pytest.raises(JobNotFound) as caught:
        any_job_of(world, world.ml_v1_jobs).cancel(PROJECT, "9" * 10_000)

    assert len(str(caught.value)) < 200


def test_a_cancel_ends_the_job_and_can_be_repeated(world: World) -> None:
    world.add_image()
    world.submit()
    for _ in range(2):
        any_job_of(world, world.ml_v1_jobs).cancel(PROJECT, "job")
    world.settle()

    assert world.state() is JobState.CANCELLED
