"""A database that takes no write for a while: the loop fails, and goes on when it can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from container_engines.base import EngineView
from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import PROJECT, World
from training_api.states import JobState
from training_service.store.database import open_database

#: What a database without room does, set on each of its connections, and how that ends.
FULL = ("PRAGMA max_page_count=1", "PRAGMA max_page_count=1073741823")
READ_ONLY = ("PRAGMA query_only=ON", "PRAGMA query_only=OFF")


class Tight:
    """A world whose database is full when a test says so."""

    def __init__(self, folder: Path, begin: str, end: str) -> None:
        self.database = open_database(f"sqlite:///{folder / 'jobs.db'}")
        self.is_full = False

        def checkout(connection: Any, *_: Any) -> None:
            connection.execute(begin if self.is_full else end)

        sa.event.listen(self.database, "checkout", checkout)
        self.world = World(self.database)

    def fill(self) -> None:
        """Let nothing be written any more, also where pages have a little room."""
        self.is_full = True
        record = self.world.store.get(PROJECT, "job")
        for _ in range(10_000):
            try:
                self.world.store.note(record, "x" * 20)
            except sa.exc.OperationalError:
                return
        raise AssertionError("the database is never full")

    def step(self) -> bool:
        """Do one iteration; whether the database took what it wrote."""
        try:
            self.world.step()
        except sa.exc.OperationalError:
            return False
        return True


@pytest.fixture(params=[FULL, READ_ONLY], ids=["full", "read-only"])
def tight(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tight]:
    tight = Tight(tmp_path, *request.param)
    yield tight
    tight.database.dispose()


def test_a_job_that_ended_meanwhile_is_not_running_when_there_is_room_again(tight: Tight) -> None:
    world = tight.world
    world.add_image(Behaviour(run_seconds=5, lines=("epoch 1",)))
    world.submit()
    world.settle()
    assert world.state() is JobState.RUNNING
    tight.fill()

    world.engine.advance(5)
    stored = [tight.step() for _ in range(20)]
    tight.is_full = False
    world.settle()

    assert not all(stored)
    assert world.state() is JobState.SUCCEEDED
    assert world.messages().count("epoch 1") == 1
    assert world.engine.observe() == EngineView()


def test_a_job_that_waited_meanwhile_runs_when_there_is_room_again(tight: Tight) -> None:
    world = tight.world
    world.add_image(Behaviour(run_seconds=5))
    world.submit()
    tight.fill()

    for _ in range(20):
        tight.step()
    tight.is_full = False
    world.settle()
    world.engine.advance(5)
    world.settle()

    assert world.state() is JobState.SUCCEEDED
    assert world.engine.observe() == EngineView()
