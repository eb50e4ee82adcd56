"""What an agent reads of its engine, at the seam of the engine's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from container_engines.gpu_meter import GpuMeter, GpuUse
from training_service.agent.local_engine import LocalEngine
from training_service.agent.rows import facts_of, uses_of
from training_service.agent.wire import SyncRequest

STATS = {
    "memory_stats": {"usage": 100, "stats": {"total_inactive_file": 40}},
    "cpu_stats": {"cpu_usage": {"total_usage": 3_000_000_000}},
}


class Engine(httpx.BaseTransport):
    """Answers as an engine with these containers: state by id."""

    def __init__(self) -> None:
        self.containers: dict[str, str] = {}
        self.environment: list[str] = []
        self.asked: list[str] = []
        self.is_up = True
        self.now = 1000.0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self.is_up:
            raise httpx.ConnectError("no such file")
        path = request.url.path.removeprefix("/v1.41")
        self.asked.append(path)
        answer: Any = STATS
        if path == "/containers/json":
            assert "container-training.service=s" in request.url.params["filters"]
            answer = [{"Id": name, "State": state, "Created": 990} for name, state in self.containers.items()]
        elif path.endswith("/json"):
            answer = {
                "State": {"OOMKilled": path.split("/")[2] == "full"},
                "Config": {"Env": self.environment},
            }
        return httpx.Response(200, json=answer)


def reader(engine: Engine) -> LocalEngine:
    return LocalEngine("/socket", "container-training.service=s", engine, lambda: engine.now)


def test_each_end_is_asked_for_once_and_forgotten_with_its_container() -> None:
    engine = Engine()
    engine.containers = {"full": "exited", "killed": "exited", "runs": "running"}
    local = reader(engine)

    assert local.facts().out_of_memory == {"full": True, "killed": False}
    assert local.facts().out_of_memory == {"full": True, "killed": False}
    assert engine.asked.count("/containers/full/json") == 1
    engine.containers = {}
    assert local.facts().out_of_memory == {}


def test_use_is_sampled_less_often_the_older_a_container_is() -> None:
    engine = Engine()
    engine.containers = {"runs": "running"}
    local = reader(engine)

    used = local.facts().usage["runs"]
    assert (used.cpu_seconds, used.memory_bytes, used.age_seconds) == (3.0, 60, 0.0)
    engine.now += 1.5
    assert local.facts().usage["runs"].age_seconds == 1.5
    engine.now += 0.5
    assert local.facts().usage["runs"].age_seconds == 0.0
    engine.now += 2500.0
    local.facts()
    engine.now += 5.0
    assert local.facts().usage["runs"].age_seconds == 5.0


def test_a_container_with_gpus_has_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.containers = {"trains": "running"}
    engine.environment = ["PATH=/bin", "DOCKER_RESOURCE_NVIDIA-GPU=GPU-1,GPU-2"]
    read: list[Sequence[str]] = []

    def play(self: GpuMeter, names: Sequence[str]) -> GpuUse | None:
        read.append(names)
        return GpuUse(gpus=1.5, memory_bytes=7) if len(read) == 1 else None

    monkeypatch.setattr(GpuMeter, "read", play)
    local = reader(engine)

    used = local.facts().usage["trains"]
    assert (used.cpu_seconds, used.gpus, used.gpu_memory_bytes) == (3.0, 1.5, 7)
    assert facts_of(SyncRequest(node="n", uses=uses_of(local.facts()))).usage["trains"] == used
    engine.now += 2.0
    # The driver does not tell any more.
    used = local.facts().usage["trains"]
    assert (used.cpu_seconds, used.gpus, used.gpu_memory_bytes) == (3.0, None, None)
    assert read == [("GPU-1", "GPU-2")] * 2
    assert engine.asked.count("/containers/trains/json") == 1


def test_a_container_without_gpus_asks_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.containers = {"runs": "running"}
    monkeypatch.setattr(GpuMeter, "read", lambda *_: 1 / 0)

    assert reader(engine).facts().usage["runs"].gpus is None


def test_an_engine_that_is_away_costs_nothing_but_the_facts() -> None:
    engine = Engine()
    engine.containers = {"full": "exited"}
    local = reader(engine)
    local.facts()
    engine.is_up = False

    assert local.facts().out_of_memory == {"full": True}
    assert LocalEngine("", "label").facts().usage == {}
