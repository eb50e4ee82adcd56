"""Samples of what containers use: how often, and what they say."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from container_engines.base import ObservedReplica, Usage
from container_engines.docker.stats import usage_of
from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.world import PROJECT, World
from tests.support.speed import scaled
from training_api.errors import EngineUnavailable
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import ReplicaState
from training_service.intake.usage_sampler import FIRST_PAUSE_SECONDS, UsageSampler, pause_seconds
from training_service.store.usage_store import UsageStore

MIB = 2**20


MASTER = ReplicaId(role=ReplicaRole.MASTER)


class ScriptedUsage(MemoryEngine):
    """Answers with what the test puts there; ``None``: the container does not run."""

    usage: Usage | None = None

    def read_usage(self, container_id: str) -> Usage | None:
        return self.usage


class Refusing(MemoryEngine):
    """Refuses to tell what the containers ``refused`` use."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.refused: tuple[str, ...] = refused
        self.asked: list[str] = []
        self.used = 1.0

    def read_usage(self, container_id: str) -> Usage | None:
        self.asked.append(container_id)
        if container_id in self.refused:
            raise EngineUnavailable("stats: no answer")
        return Usage(cpu_seconds=self.used, memory_bytes=1)


class Hanging(MemoryEngine):
    """Does not answer for the container ``b`` until ``gives_up``: its client's time limit."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked = threading.Event()
        self.gives_up = threading.Event()

    def read_usage(self, container_id: str) -> Usage | None:
        if container_id == "b":
            self.is_asked.set()
            self.gives_up.wait()
            raise EngineUnavailable("stats: no answer")
        return Usage(cpu_seconds=1, memory_bytes=1)


def container(state: ReplicaState, age: timedelta, name: str = "c", index: int = 0) -> ObservedReplica:
    return ObservedReplica(
        job_uid="uid",
        replica=ReplicaId(role=ReplicaRole.WORKER, index=index) if index else MASTER,
        container_id=name,
        state=state,
        exit_code=0 if state is ReplicaState.EXITED else None,
        started_at=datetime.now(UTC) - age,
    )


def test_the_first_sample_is_the_average_since_the_start(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    store, engine = UsageStore(world.database), ScriptedUsage()
    engine.usage = Usage(cpu_seconds=500, memory_bytes=64 * MIB)
    sampler = UsageSampler(engine, store, lambda: 0.0)
    sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=1000)))

    sampler.sample()
    sampler.sample()  # not due

    (series,) = store.of_job(record.uid)
    assert series.replica == "master-replica-0"
    assert series.cpu_cores == [pytest.approx(0.5, rel=0.05)]
    assert series.memory_bytes == [64 * MIB]
    assert len(series.times) == 1


def test_use_of_gpus_is_kept_beside_the_rest(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    store, engine = UsageStore(world.database), ScriptedUsage()
    sampler = UsageSampler(engine, store)
    for gpus in (1.5, None):
        engine.usage = Usage(cpu_seconds=1, memory_bytes=1, gpus=gpus, gpu_memory_bytes=gpus and 7 * MIB)  # type: ignore[arg-type]
        sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=10)))
        sampler.sample()
        sampler.forget(set())

    (series,) = store.of_job(record.uid)
    assert series.gpus == [1.5, None]
    assert series.gpu_memory_bytes == [7 * MIB, None]
    assert len(series.times) == 2


def test_what_does_not_run_is_not_sampled(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    store, engine = UsageStore(world.database), ScriptedUsage()
    sampler = UsageSampler(engine, store)

    sampler.follow(record, container(ReplicaState.RUNNING, timedelta(0)))
    sampler.sample()  # the engine knows nothing of it
    engine.usage = Usage(cpu_seconds=1, memory_bytes=1)
    sampler.follow(record, container(ReplicaState.EXITED, timedelta(0)))
    sampler.sample()

    assert store.of_job(record.uid) == []


def test_a_container_that_cannot_be_sampled_does_not_keep_the_others_from_it(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    store, engine = UsageStore(world.database), Refusing("b")
    sampler = UsageSampler(engine, store)
    for index, name in enumerate("abc"):
        sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=10), name, index))

    sampler.sample()

    assert sorted(engine.asked) == ["a", "b", "c"]
    assert {series.replica for series in store.of_job(record.uid)} == {
        "master-replica-0",
        "worker-replica-2",
    }


def test_a_sample_that_hangs_holds_up_neither_the_loop_nor_for_good_the_others(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    store, engine = UsageStore(world.database), Hanging()
    sampler = UsageSampler(engine, store)
    for index, name in enumerate("abc"):
        sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=10), name, index))
    sampling = threading.Thread(target=sampler.sample)
    sampling.start()
    assert engine.is_asked.wait(scaled(10))

    # What the loop does with each look at the engine.
    looks = threading.Thread(
        target=lambda: (
            sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=1), "d", 3)),
            sampler.forget({"a", "b", "c", "d"}),
        )
    )
    looks.start()
    looks.join(scaled(10))
    is_free = not looks.is_alive()
    engine.gives_up.set()
    sampling.join()
    sampler.sample()

    assert is_free
    assert {series.replica for series in store.of_job(record.uid)} == {
        "master-replica-0",
        "worker-replica-2",
        "worker-replica-3",
    }


def test_sampling_goes_on_after_an_outage_with_the_average_over_it(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    seconds = [0.0]
    store, engine = UsageStore(world.database), Refusing()
    sampler = UsageSampler(engine, store, clock=lambda: seconds[0])
    for index, name in enumerate("ab"):
        sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=10), name, index))
    samples = []

    for seconds[0] in range(200):
        engine.refused = ("a", "b") if 10 <= seconds[0] < 100 else ()
        engine.used = seconds[0] / 2
        sampler.sample()
        samples.append([len(series.times) for series in store.of_job(record.uid)])

    assert samples[9] == samples[99] == [5, 5]
    assert samples[10 + 62 + 60] == [6, 6]  # the longest pause is a minute
    assert samples[-1][0] > 30
    assert [series.cpu_cores[5] for series in store.of_job(record.uid)] == [pytest.approx(0.5)] * 2


def test_a_container_that_cannot_be_sampled_is_asked_ever_less_often(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    seconds = [0.0]
    engine = Refusing("a")
    sampler = UsageSampler(engine, UsageStore(world.database), clock=lambda: seconds[0])
    sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=10), "a"))

    asked = []
    for seconds[0] in range(200):
        before = len(engine.asked)
        sampler.sample()
        asked += [seconds[0]] * (len(engine.asked) - before)

    assert asked == [0, 2, 6, 14, 30, 62, 122, 182]


def test_samples_grow_rare_with_age() -> None:
    assert pause_seconds(0) == pause_seconds(60) == FIRST_PAUSE_SECONDS
    week, age, samples = 7 * 24 * 3600.0, 0.0, 0
    while age < week:
        age += pause_seconds(age)
        samples += 1
    assert samples < 2500


@pytest.mark.parametrize(
    ("stats", "memory"),
    [
        ({"total_inactive_file": 3, "inactive_file": 1}, 7),  # cgroup v1
        ({"inactive_file": 4}, 6),  # cgroup v2
        ({}, 10),
    ],
)
def test_memory_without_what_the_kernel_can_drop(stats: dict[str, int], memory: int) -> None:
    answer = {
        "memory_stats": {"usage": 10, "stats": stats},
        "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000}},
    }

    assert usage_of(answer) == Usage(cpu_seconds=1.5, memory_bytes=memory)


def test_a_container_that_has_ended_uses_nothing() -> None:
    assert usage_of({"memory_stats": {}, "cpu_stats": {"cpu_usage": {"total_usage": 0}}}) is None


def test_a_sample_is_of_when_it_was_taken_and_stored_once(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    now = 100.0
    store, engine = UsageStore(world.database), ScriptedUsage()
    sampler = UsageSampler(engine, store, lambda: now)
    sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=402)))
    engine.usage = Usage(cpu_seconds=200, memory_bytes=1, age_seconds=2.0)
    sampler.sample()

    now += 3.0  # the machine has taken no other since
    engine.usage = Usage(cpu_seconds=200, memory_bytes=1, age_seconds=5.0)
    sampler.sample()
    now += 3.0  # taken six seconds after the first, one second ago
    engine.usage = Usage(cpu_seconds=206, memory_bytes=1, age_seconds=2.0)
    sampler.sample()

    (series,) = store.of_job(record.uid)
    assert series.cpu_cores == [pytest.approx(0.5, rel=0.05), pytest.approx(1.0)]
