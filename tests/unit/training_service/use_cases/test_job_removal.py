"""Deleting a job: only once it has ended, and with all that belongs to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_api.errors import JobNotFound
from training_api.states import JobState
from training_service.store.ended.ended_jobs import EndedJob, EndedJobs
from training_service.upkeep.tasks import remove_batch
from training_service.use_cases.job_removal import JobRemoval, JobStillActive


@pytest.fixture
def removal(world: World) -> JobRemoval:
    ended = EndedJobs(world.database)

    def remove(job: EndedJob) -> None:
        list(remove_batch(ended, world.logs, [job]))

    return JobRemoval(remove, ended.has_active_trial)


def test_a_job_that_has_ended_goes_with_its_log(world: World, removal: JobRemoval) -> None:
    world.add_image(Behaviour(run_seconds=1))
    world.submit()
    world.settle()
    world.engine.advance(2)
    world.settle()
    assert world.state() is JobState.SUCCEEDED

    removal.remove(world.store.get(PROJECT, "job"))

    with pytest.raises(JobNotFound):
        world.store.get(PROJECT, "job")
    assert world.messages() == []


def test_a_job_that_has_not_ended_stays(world: World, removal: JobRemoval) -> None:
    world.submit()

    with pytest.raises(JobStillActive, match="job job is QUEUED; cancel it, and delete it once it has ended"):
        removal.remove(world.store.get(PROJECT, "job"))

    assert world.state() is JobState.QUEUED


def test_a_tuning_job_stays_until_its_trials_have_ended(world: World, removal: JobRemoval) -> None:
    """One that cannot be read ends before them."""
    world.add_image(Behaviour(run_seconds=1))
    world.submit()
    world.settle()
    study = world.store.get(PROJECT, "job")
    assert world.add_trial(study, 1, {})
    world.engine.advance(2)
    ended = replace(study, state=JobState.FAILED)

    with pytest.raises(JobStillActive, match="trials of job job have not ended; delete it once they have"):
        removal.remove(ended)

    trials = world.store.list_active()
    assert [each.trial.number for each in trials if each.trial] == [1]
