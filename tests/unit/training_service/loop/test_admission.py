"""Jobs start by priority, then age, as far as they fit."""

from __future__ import annotations

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.dialects.ml_v1.resources import Scheduling
from training_api.states import JobState


def test_jobs_wait_in_the_queue_by_priority_then_age(world: World) -> None:
    world.add_image(Behaviour(run_seconds=60))
    for name in ("first", "second", "third", "fourth"):
        world.submit(name)
    world.submit("urgent", scheduling=Scheduling(priority=5))
    world.submit("late")

    world.settle()

    running = [name for name in ("first", "second", "urgent") if world.state(name) is JobState.RUNNING]
    assert running == ["first", "urgent"]
    assert [world.get(name).job_position for name in ("second", "third", "fourth", "late")] == [1, 2, 3, 4]


def test_queued_job_starts_when_another_ends(world: World) -> None:
    world.add_image(Behaviour(run_seconds=60))
    for name in ("first", "second", "third"):
        world.submit(name)
    world.settle()

    world.engine.advance(60)
    world.settle()

    assert world.state("third") is JobState.RUNNING
