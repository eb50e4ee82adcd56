"""
What the loop writes, and what it does on the engine.

Nothing is done on the engine by a service that does not move the jobs any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.base import EngineView
from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.states import JobState, ReplicaState
from training_service.model.records import JobRecord
from training_service.store.leadership import NotActive


@pytest.fixture
def world(world: World) -> World:
    world.add_image(Behaviour(run_seconds=10**6))
    return world


def lose(world: World) -> None:
    def refuse() -> None:
        raise NotActive("another one does")

    world.before_engine = refuse


def engine_after_a_step(world: World) -> EngineView:
    lose(world)
    world.step(3)
    return world.engine.observe()


def test_no_image_is_pulled(world: World) -> None:
    world.submit()
    world.step()  # it is admitted

    engine_after_a_step(world)

    assert world.state() is JobState.PREPARING
    assert not world.store.list_active()[0].images


def test_no_replica_is_started(world: World) -> None:
    world.submit()
    while not (world.store.list_active()[0].images):
        world.step()

    assert not engine_after_a_step(world).replicas


def test_no_replica_is_stopped(world: World) -> None:
    world.submit()
    world.settle()
    world.jobs.cancel("project", "job")

    (replica,) = engine_after_a_step(world).replicas
    assert replica.state is ReplicaState.RUNNING


def test_nothing_is_removed(world: World) -> None:
    world.submit()
    world.settle()
    world.jobs.cancel("project", "job")
    while world.state() is not JobState.CANCELLED:
        world.step()
    present = world.engine.observe()

    assert engine_after_a_step(world) == present


def fail_writing(world: World, monkeypatch: pytest.MonkeyPatch, job_id: str) -> None:
    """Have no change of a job's state be written."""
    advance = world.store.advance

    def fail(record: JobRecord, *args: Any, **kwargs: Any) -> bool:
        if record.spec.job_id == job_id:
            raise LookupError("a bug")
        return advance(record, *args, **kwargs)

    monkeypatch.setattr(world.store, "advance", fail)


def test_a_decision_that_cannot_be_written_stops_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job_id in ("bad", "good"):
        world.submit(job_id)
    fail_writing(world, monkeypatch, "bad")

    for _ in range(4):
        with pytest.raises(ExceptionGroup) as failed:
            world.step()

    assert [world.state("bad"), world.state("good")] == [JobState.QUEUED, JobState.RUNNING]
    assert "Transition of the job" in str(failed.value.exceptions[0].__notes__)


def test_what_is_not_stored_is_not_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.submit()

    @contextmanager
    def lose_all() -> Iterator[None]:
        yield
        raise sa.exc.OperationalError("COMMIT", None, OSError("the disk is full"))

    with monkeypatch.context() as patched:
        patched.setattr(world.store, "together", lose_all)
        with pytest.raises(sa.exc.OperationalError):
            world.step()

    assert not list(world.metrics.transitions.collect()[0].samples)
