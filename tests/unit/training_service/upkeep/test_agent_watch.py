"""Agents are started by the service, and again whenever the engine lacked them."""

from __future__ import annotations

import pytest

from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.world import World
from training_api.errors import EngineUnavailable
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
