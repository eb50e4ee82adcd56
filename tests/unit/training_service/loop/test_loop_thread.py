"""The loop on its thread: when it looks, and what it says of an iteration that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from container_engines.base import EngineView
from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.world import World
from tests.support.waiting import wait_until
from training_api.errors import EngineUnavailable
from training_service.store.database import open_database


class Failing(MemoryEngine):
    """Fails with ``error`` when it is observed."""

    error: Exception | None = None

    def observe(self) -> EngineView:
        if self.error:
            raise self.error
        return super().observe()


def test_a_loop_that_fails_says_so_until_it_goes_on(tmp_path: Path) -> None:
    engine = Failing()
    engine.error = KeyError("a bug")
    world = World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"), engine=engine)
    before = world.scheduler.problem

    world.scheduler.start()
    wait_until(lambda: world.scheduler.problem == "KeyError", "the loop has failed")
    engine.error = None
    world.scheduler.notify()
    wait_until(lambda: world.scheduler.problem == "", "the loop goes on")
    world.scheduler.stop()

    assert before == ""


def wait_for_beat(world: World) -> None:
    """Wait until the loop has ended an iteration well that began after this call."""
    for _ in range(2):
        before = world.heartbeat.at
        world.engine.advance(1)
        world.scheduler.notify()
        wait_until(lambda before=before: world.heartbeat.at > before, "the loop beats")  # type: ignore[misc]


@pytest.mark.parametrize(
    "error",
    [
        None,
        EngineUnavailable("gone"),
        sa.exc.OperationalError("SELECT", {}, Exception("database or disk is full")),
    ],
)
def test_a_loop_beats_also_while_it_waits_for_engine_or_database(
    tmp_path: Path, error: Exception | None
) -> None:
    engine = Failing()
    engine.error = error
    world = World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"), engine=engine)

    world.scheduler.start()

    wait_for_beat(world)
    world.scheduler.stop()


def test_a_loop_that_fails_does_not_beat(tmp_path: Path) -> None:
    engine = Failing()
    engine.error = KeyError("a bug")
    world = World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"), engine=engine)

    def failures() -> float:
        return world.metrics.registry.get_sample_value("training_loop_errors_total") or 0.0

    world.scheduler.start()
    wait_until(lambda: world.scheduler.problem == "KeyError", "the loop has failed")
    first, before = world.heartbeat.at, failures()
    engine.advance(1)
    world.scheduler.notify()
    wait_until(lambda: failures() > before, "the loop has failed again")
    after_failure = world.heartbeat.at
    engine.error = None
    wait_for_beat(world)
    world.scheduler.stop()

    assert after_failure == first


@pytest.mark.parametrize("slow_seconds", [0.0, 0.3])
def test_the_loop_looks_until_the_engines_list_shows_an_event(
    world: World, monkeypatch: pytest.MonkeyPatch, slow_seconds: float
) -> None:
    # As Docker does: the list of containers shows an end a moment after the event.
    for name in ("_ACTIVE_SECONDS", "_IDLE_SECONDS"):
        monkeypatch.setattr(f"training_service.loop.scheduler.{name}", 3600.0)
    happens, looks, observe = threading.Event(), list[float](), world.engine.observe

    def events() -> Iterator[None]:
        happens.wait()
        yield
        threading.Event().wait()

    def look() -> EngineView:
        looks.append(time.monotonic())
        seen = observe()
        if happens.is_set():
            time.sleep(slow_seconds)
        return seen

    monkeypatch.setattr(world.engine, "events", events)
    monkeypatch.setattr(world.engine, "observe", look)
    world.scheduler.start()
    wait_until(lambda: len(looks) == 1, "the loop has begun")

    happened_at = time.monotonic()
    happens.set()

    wait_until(lambda: looks[-1] >= happened_at + 0.1, "it has looked when the list shows the event")
    world.scheduler.stop()
