"""Jobs that a user or a limit cancels."""

from __future__ import annotations

import pytest

from container_engines.base import EngineView
from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.resources import Scheduling
from training_api.errors import JobNotFound
from training_api.states import JobState


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_cancel_ends_the_job_from_every_state(world: World, steps: int) -> None:
    world.add_image(Behaviour(run_seconds=60))
    world.submit()
    world.step(steps)

    world.jobs.cancel(PROJECT, "job")
    asked = world.state()
    world.settle()

    assert asked is JobState.CANCELLING
    assert world.state() is JobState.CANCELLED
    assert world.get().error_message == "The job was cancelled on request."
    assert world.engine.observe() == EngineView()


def test_cancel_kills_a_container_that_ignores_sigterm(world: World) -> None:
    world.add_image(Behaviour(run_seconds=3600, ignores_sigterm=True))
    world.submit()
    world.settle()

    world.jobs.cancel(PROJECT, "job")
    world.settle()

    assert world.state() is JobState.CANCELLED


def test_cancel_of_an_ended_job_changes_nothing(world: World) -> None:
    world.add_image()
    world.submit()
    world.settle()
    world.engine.advance(1)
    world.settle()
    before = world.get()

    world.jobs.cancel(PROJECT, "job")

    assert world.get() == before


def test_cancel_of_an_unknown_job_is_not_found(world: World) -> None:
    with pytest.raises(JobNotFound, match="'absent' not found in project 'project'"):
        world.jobs.cancel(PROJECT, "absent")


def test_job_that_waits_too_long_is_cancelled_by_its_limit(world: World) -> None:
    world.add_image(Behaviour(run_seconds=10_000))
    for name in ("first", "second"):
        world.submit(name)
    world.submit("waiting", scheduling=Scheduling(max_wait_time="1800s"))
    world.settle()

    world.engine.advance(1799)
    world.settle()
    before = world.state("waiting")
    world.engine.advance(1)
    world.settle()

    assert before is JobState.QUEUED
    assert world.state("waiting") is JobState.CANCELLED
    assert "scheduling.maxWaitTime (1800s)" in (world.get("waiting").error_message or "")


def test_job_that_runs_too_long_is_cancelled_by_its_limit(world: World) -> None:
    world.add_image(Behaviour(run_seconds=10_000))
    world.submit(scheduling=Scheduling(max_running_time="60s", max_wait_time="1800s"))
    world.settle()

    world.engine.advance(59)
    world.settle()
    before = world.state()
    world.engine.advance(1)
    world.settle()

    assert before is JobState.RUNNING
    assert world.state() is JobState.CANCELLED
    assert "scheduling.maxRunningTime (60s)" in (world.get().error_message or "")
    assert world.engine.observe() == EngineView()


def test_job_that_ended_in_time_has_succeeded_however_late_somebody_looks(world: World) -> None:
    world.add_image(Behaviour(run_seconds=50))
    world.submit(scheduling=Scheduling(max_running_time="60s"))
    world.settle()

    world.engine.advance(3600)
    world.restart()
    world.settle()

    assert world.state() is JobState.SUCCEEDED
