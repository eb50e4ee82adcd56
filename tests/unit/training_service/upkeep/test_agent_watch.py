"""Agents are started by the service, and again whenever the engine lacked them."""

from __future__ import annotations

import threading

import pytest

from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.world import World
from tests.support.speed import scaled
from training_api.errors import EngineUnavailable
from training_service.upkeep import agent_watch
from training_service.upkeep.agent_watch import AgentWatch


def test_what_the_engine_refuses_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [EngineUnavailable("away"), None, None]
    calls = 0

    def confine(_: MemoryEngine) -> None:
        nonlocal calls
        calls += 1
        if error := answers.pop(0):
            raise error

    monkeypatch.setattr(MemoryEngine, "confine", confine)
    watch = AgentWatch(world.engine)

    assert [watch.keep(), watch.keep()] == [False, True]
    assert calls == 2


def test_it_outlives_what_nobody_has_expected(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Exception | None] = [KeyError("Spec"), None]
    was_kept = threading.Event()

    def confine(_: MemoryEngine) -> None:
        if error := answers.pop(0):
            raise error
        was_kept.set()

    monkeypatch.setattr(MemoryEngine, "confine", confine)
    monkeypatch.setattr(agent_watch, "_RETRY_SECONDS", 0.01)
    watch = AgentWatch(world.engine)
    watch.start()

    assert was_kept.wait(scaled(60))
    watch.stop()
