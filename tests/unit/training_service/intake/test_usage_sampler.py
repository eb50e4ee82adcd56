"""Samples of what containers use: how often, and what they say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from container_engines.base import ObservedReplica, Usage
from container_engines.docker.stats import usage_of
from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.world import PROJECT, World
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import ReplicaState
from training_service.intake.usage_sampler import FIRST_PAUSE_SECONDS, UsageSampler, pause_seconds
from training_service.store.usage_store import UsageStore

MIB = 2**20


class ScriptedUsage(MemoryEngine):
    """Answers with what the test puts there; ``None``: the container does not run."""

    usage: Usage | None = None

    def read_usage(self, container_id: str) -> Usage | None:
        return self.usage


def container(state: ReplicaState, age: timedelta) -> ObservedReplica:
    return ObservedReplica(
        job_uid="uid",
        replica=ReplicaId(role=ReplicaRole.MASTER),
        container_id="c",
        state=state,
        exit_code=0 if state is ReplicaState.EXITED else None,
        started_at=datetime.now(UTC) - age,
    )


def test_the_first_sample_is_the_average_since_the_start(world: World) -> None:
    world.submit()
    record = world.store.get(PROJECT, "job")
    store, engine = UsageStore(world.database), ScriptedUsage()
    engine.usage = Usage(cpu_seconds=5, memory_bytes=64 * MIB)
    sampler = UsageSampler(engine, store)
    sampler.follow(record, container(ReplicaState.RUNNING, timedelta(seconds=10)))

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
