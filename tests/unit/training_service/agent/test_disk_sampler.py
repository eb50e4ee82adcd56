"""How often the engine counts what a container has written, and what becomes of the answers."""

from __future__ import annotations

import httpx
import pytest
import structlog

from tests.support.waiting import wait_until
from training_service.agent import disk_sampler
from training_service.agent.disk_sampler import DiskSampler


class Engine(httpx.BaseTransport):
    """An engine that takes ``takes`` seconds to count a container."""

    def __init__(self) -> None:
        self.now = 0.0
        self.takes = 0.0
        self.sizes: dict[str, int | None] = {"a": 1, "b": 2}
        self.counted: list[str] = []
        self.is_up = True
        self.odd_answers = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not self.is_up:
            raise httpx.ConnectError("away")
        if self.odd_answers:
            self.odd_answers -= 1
            return httpx.Response(200, json=["a"])
        if request.url.path.endswith("/containers/json"):
            assert request.url.params["filters"] == '{"label": ["service=s"]}'
            return httpx.Response(200, json=[{"Id": name} for name in self.sizes])
        name = request.url.path.split("/")[-2]
        assert request.url.params["size"] == "true"
        self.now += self.takes
        self.counted.append(name)
        size = self.sizes[name]
        return httpx.Response(404) if size is None else httpx.Response(200, json={"SizeRw": size})


def sampler_of(engine: Engine) -> DiskSampler:
    return DiskSampler("/socket", "service=s", engine, lambda: engine.now)


def test_each_container_is_counted_again_after_a_pause_and_forgotten_when_it_ends() -> None:
    engine = Engine()
    sampler = sampler_of(engine)
    sampler.sample()
    assert sampler.sizes == {"a": 1, "b": 2}

    engine.now, engine.sizes = 14.0, {"b": 3}
    sampler.sample()
    assert sampler.sizes == {"b": 2}

    engine.now = 15.0
    sampler.sample()
    assert sampler.sizes == {"b": 3}
    assert sorted(engine.counted) == ["a", "b", "b"]


def test_what_takes_long_is_asked_less_often_but_not_for_ever() -> None:
    engine = Engine()
    engine.sizes, engine.takes = {"a": 1}, 3.0
    sampler = sampler_of(engine)
    for engine.now in (0.0, 62.0, 63.0):
        sampler.sample()
    assert engine.counted == ["a", "a"]

    engine.takes = 19.0
    for engine.now in (200.0, 338.0, 339.0):
        sampler.sample()
    assert engine.counted == ["a"] * 4


def test_what_cannot_be_counted_leaves_the_others_alone() -> None:
    engine = Engine()
    engine.sizes = {"a": None, "b": -1, "c": 4}
    sampler = sampler_of(engine)

    sampler.sample()

    assert sampler.sizes == {"c": 4}


def test_an_engine_that_is_away_is_told_of_once() -> None:
    engine = Engine()
    sampler = sampler_of(engine)
    engine.is_up = False
    with structlog.testing.capture_logs() as logs:
        sampler.sample()
        sampler.sample()
    assert [line["reason"] for line in logs] == ["away"]

    engine.is_up = True
    sampler.sample()
    assert sampler.sizes == {"a": 1, "b": 2}


def test_it_outlives_an_answer_that_nobody_has_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_sampler, "_TICK_SECONDS", 0.01)
    engine = Engine()
    engine.sizes, engine.odd_answers = {"a": 1}, 1
    sampler = sampler_of(engine)
    sampler.start()

    wait_until(lambda: sampler.sizes == {"a": 1}, "the next answer counts")
    sampler.stop()
