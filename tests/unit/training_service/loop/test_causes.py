"""Each way in which a job does not end well has its cause, stored beside the message."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from container_engines.base import PulledImage, ReplicaLaunch
from container_engines.memory.engine import Behaviour, MemoryEngine
from container_engines.pull_watch import PullWatch
from tests.support.fakes.studies import Tuning
from tests.support.fakes.world import PROJECT, World
from training_api.causes import Cause
from training_api.dialects.ml_v1.resources import Scheduling
from training_api.errors import (
    CommandNotFound,
    DiskFull,
    EngineError,
    GpusTaken,
    ImageAccessDenied,
    ImageNotFound,
)
from training_api.job.image_ref import ImageRef
from training_api.states import JobState
from training_service.model.reasons import Reason
from training_service.store.database import open_database


class Refusing(MemoryEngine):
    """Refuses to pull, or to start, with an error."""

    pull_error: EngineError | None = None
    start_error: EngineError | None = None

    def pull_image(self, ref: ImageRef, token: str = "", watch: PullWatch | None = None) -> PulledImage:
        if self.pull_error:
            raise self.pull_error
        return super().pull_image(ref, token, watch)

    def start_replica(self, launch: ReplicaLaunch) -> None:
        if self.start_error:
            raise self.start_error
        super().start_replica(launch)


@pytest.fixture
def engine() -> Refusing:
    return Refusing()


@pytest.fixture
def world(engine: Refusing) -> World:
    world = World(open_database("sqlite://"), engine=engine)
    world.add_image(Behaviour(run_seconds=10))
    return world


def ended(world: World) -> Reason:
    """Return why the job ended, once it has."""
    world.settle()
    while not world.store.get(PROJECT, "job").state.is_terminal:
        world.engine.advance(60)
        world.settle()
    reason = world.store.get(PROJECT, "job").reason
    assert reason is not None
    return reason


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ImageNotFound("manifest unknown"), Cause.IMAGE),
        (ImageAccessDenied("unauthorized"), Cause.ACCESS),
        (DiskFull("no space left on device"), Cause.STORAGE),
    ],
)
def test_an_image_that_cannot_be_pulled(
    world: World, engine: Refusing, error: EngineError, cause: Cause
) -> None:
    engine.pull_error = error
    world.submit()

    reason = ended(world)

    assert (reason.cause, reason.replica) == (cause, "master 0")
    assert str(error) in reason.message


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (CommandNotFound("executable file not found"), Cause.COMMAND),
        (DiskFull("no space left on device"), Cause.STORAGE),
        (GpusTaken("2 GPUs are needed and 1 of 2 are free"), Cause.QUOTA),
        (EngineError("cannot set memory limit"), Cause.ENGINE),
    ],
)
def test_a_container_that_cannot_be_started(
    world: World, engine: Refusing, error: EngineError, cause: Cause
) -> None:
    engine.start_error = error
    world.submit()

    reason = ended(world)

    assert (reason.cause, reason.replica) == (cause, "master 0")
    assert reason.message == f"The replica master 0 could not start: {error}"


def test_a_registry_that_does_not_answer(world: World, engine: Refusing) -> None:
    engine.registry_available = False
    world.submit()

    assert ended(world).cause is Cause.REGISTRY


def test_a_program_that_fails(world: World) -> None:
    world.add_image(Behaviour(exit_code=3))
    world.submit()

    assert ended(world) == Reason(
        cause=Cause.PROGRAM_ERROR,
        message="The replica master 0 exited with a non-zero status of 3.",
        replica="master 0",
        exit_code=3,
    )


def cancel(world: World) -> None:
    world.submit()
    world.settle()
    world.jobs.cancel(PROJECT, "job")


def run_too_long(world: World) -> None:
    world.add_image(Behaviour(run_seconds=1000))
    world.submit(scheduling=Scheduling(max_running_time="60s"))


def wait_too_long(world: World) -> None:
    world.max_replicas = 1
    world.restart()
    world.add_image(Behaviour(run_seconds=10**6))
    world.submit("other")
    world.submit(scheduling=Scheduling(max_wait_time="1800s"))


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        (cancel, Cause.CANCELLED),
        (run_too_long, Cause.RAN_TOO_LONG),
        (wait_too_long, Cause.WAITED_TOO_LONG),
    ],
)
def test_a_job_that_is_cancelled(world: World, end: Callable[[World], None], cause: Cause) -> None:
    end(world)

    assert ended(world).cause is cause
    assert world.state() is JobState.CANCELLED
    counted = {"kind": "job", "cause": cause.value}
    assert world.metrics.registry.get_sample_value("training_job_failures_total", counted) == 1


def test_trials_without_their_metric_fail_and_their_study_with_the_last(world: World) -> None:
    tuning = Tuning(world, tag="another")
    tuning.submit(max_trials=3)
    tuning.run()

    reason = world.store.get(PROJECT, "job").reason

    assert reason is not None
    assert (reason.cause, reason.failed_trials) == (Cause.METRIC, 3)
    study = world.store.get(PROJECT, "job").uid
    trials = world.trials.ended(study, ())
    assert [trial.reason and trial.reason.cause for trial in trials] == [Cause.METRIC] * 3


def test_trials_that_run_when_their_job_is_cancelled_end_with_it(world: World) -> None:
    tuning = Tuning(world)
    tuning.submit(run_seconds=1000)
    world.settle()

    world.jobs.cancel(PROJECT, "job")
    world.settle()

    trials = world.trials.ended(world.store.get(PROJECT, "job").uid, ())
    assert [trial.reason and trial.reason.cause for trial in trials] == [Cause.STUDY_ENDED] * 2


def test_a_cause_outlives_a_kill_between_the_decision_and_the_end(world: World) -> None:
    world.add_image(Behaviour(exit_code=3))
    world.submit()
    world.settle()
    world.engine.advance(5)
    while world.store.get(PROJECT, "job").outcome is None:
        world.step()

    world.restart()

    assert ended(world).cause is Cause.PROGRAM_ERROR
