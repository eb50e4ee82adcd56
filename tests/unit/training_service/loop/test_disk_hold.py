"""A disk that is nearly full keeps jobs in the queue, and each is told once."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.cloud_logging import Severity
from training_api.states import JobState
from training_service.loop.disk_hold import DiskHold
from training_service.model.records import JobRecord
from training_service.model.work import Transition

FULL = "the disk of the database has 1.00 GiB free"
LINE = f"The job waits: the service admits no job now, as {FULL}."


def test_no_job_leaves_the_queue_and_each_that_could_is_told_once(world: World) -> None:
    world.add_image()
    world.submit("first")
    world.submit("second")
    world.disk_problem = FULL

    world.step(5)

    assert (world.state("first"), world.state("second")) == (JobState.QUEUED, JobState.QUEUED)
    assert world.messages("first").count(LINE) == world.messages("second").count(LINE) == 1
    assert world.get("first").job_position == 1


def test_jobs_start_when_there_is_room_again(world: World) -> None:
    world.add_image(Behaviour(run_seconds=5))
    world.submit()
    world.disk_problem = FULL
    world.step(2)

    world.disk_problem = ""
    world.settle()

    assert world.state() is JobState.RUNNING


def test_what_has_started_goes_on_to_its_end(world: World) -> None:
    world.add_image(Behaviour(run_seconds=5))
    world.submit()
    world.settle()
    world.disk_problem = FULL

    world.engine.advance(5)
    world.settle()

    assert world.state() is JobState.SUCCEEDED


def test_a_job_is_held_also_while_it_cannot_be_told(world: World) -> None:
    world.submit()
    told: list[str] = []
    is_full = True

    def note(_record: JobRecord, message: str, _severity: Severity) -> None:
        if is_full:
            raise sa.exc.OperationalError("INSERT", {}, Exception("database or disk is full"))
        told.append(message)

    hold = DiskHold(lambda: FULL, note)
    admission = Transition(job=world.store.get("project", "job"), to=JobState.PREPARING, at=world.engine.now)

    assert hold.allowed([admission]) == []
    is_full = False
    assert hold.allowed([admission]) == []
    assert hold.allowed([admission]) == []
    assert told == [LINE]


@pytest.mark.parametrize("to", [JobState.CANCELLING, JobState.RUNNING])
def test_nothing_else_is_held(world: World, to: JobState) -> None:
    world.submit()
    other = Transition(job=world.store.get("project", "job"), to=to, at=world.engine.now)

    assert DiskHold(lambda: FULL, world.store.note).allowed([other]) == [other]
