"""Containers of jobs that the database does not have: an older copy of it was restored."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.states import JobState
from training_service.store.database import open_database

GRACE = timedelta(minutes=10)


def make_world(folder: Path) -> World:
    world = World(open_database(f"sqlite:///{folder / 'jobs.db'}"), stranger_grace=GRACE)
    world.add_image(Behaviour(run_seconds=10**6))
    return world


@pytest.fixture
def restored(tmp_path: Path) -> World:
    """
    A service with the containers of ``kept`` and ``newer``.

    Its database is a copy from before ``newer`` was created.
    """
    (tmp_path / "old").mkdir()
    world = make_world(tmp_path)
    world.submit("kept")
    world.settle()
    with world.database.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(tmp_path / "jobs.db", tmp_path / "old" / "jobs.db")
    world.submit("newer")
    world.settle()
    world.database = open_database(f"sqlite:///{tmp_path / 'old' / 'jobs.db'}")
    world.restart()
    return world


def jobs_on(world: World) -> int:
    return len(world.engine.observe().job_uids)


def test_containers_without_a_job_are_kept_and_named_once(restored: World) -> None:
    known = {job.uid for job in restored.store.list_active()}

    with capture_logs() as log:
        restored.step(3)

    (entry,) = (each for each in log if "no job to these containers" in each["event"])
    (stranger,) = (each for each in restored.engine.observe().replicas if each.job_uid not in known)
    assert entry["containers"] == [f"master-replica-0 {stranger.container_id[:12]}"]
    assert entry["removed_at"].startswith((restored.engine.now + GRACE).strftime("%Y-%m-%dT%H:%M:%S"))
    assert (jobs_on(restored), restored.state("kept")) == (2, JobState.RUNNING)


def test_containers_without_a_job_are_removed_after_the_grace_period(restored: World) -> None:
    restored.step()
    restored.engine.advance(GRACE.total_seconds() - 1)
    restored.step()
    before = jobs_on(restored)
    restored.engine.advance(1)

    with capture_logs() as log:
        restored.step()

    assert (before, jobs_on(restored)) == (2, 1)
    assert [each["event"] for each in log].count("removing containers without a job") == 1
    assert restored.state("kept") is JobState.RUNNING


def test_a_service_that_is_started_anew_waits_anew(restored: World) -> None:
    restored.step()
    restored.engine.advance(GRACE.total_seconds())
    restored.restart()

    restored.step()

    assert jobs_on(restored) == 2


def test_what_an_ended_job_has_left_is_removed_at_once(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.submit()
    world.settle()
    world.jobs.cancel("project", "job")

    with capture_logs() as log:
        world.settle()

    assert (world.state(), jobs_on(world)) == (JobState.CANCELLED, 0)
    assert not [each for each in log if "containers" in each]
