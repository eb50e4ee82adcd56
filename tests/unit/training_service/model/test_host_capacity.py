"""The room of several machines."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.errors import EngineUnavailable, QuotaExceeded
from training_api.job.capacity import Capacity
from training_api.job.machines import GIB, Resources
from training_service.model import host_capacity
from training_service.model.host_capacity import HostCapacity, within


def engine_of(*hosts: Resources) -> MemoryEngine:
    engine = MemoryEngine()
    engine.machines = {f"n{number}": host for number, host in enumerate(hosts)}
    return engine


def test_machines_add_up_and_a_container_is_on_one_of_them() -> None:
    engine = engine_of(
        Resources(cpus=4, memory_bytes=9 * GIB, gpus=1), Resources(cpus=8, memory_bytes=5 * GIB, gpus=0)
    )

    capacity = HostCapacity(engine, overcommit=2).capacity

    # A gigabyte of each machine is nobody's.
    assert capacity.each == Resources(cpus=8, memory_bytes=8 * GIB, gpus=1)
    assert capacity.total == Resources(cpus=24, memory_bytes=24 * GIB, gpus=1)
    assert capacity.machines["n1"].each == Resources(cpus=8, memory_bytes=4 * GIB)
    assert capacity.machines["n1"].total == Resources(cpus=16, memory_bytes=8 * GIB)


def test_a_machine_that_joins_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Resources(cpus=4, memory_bytes=9 * GIB)
    engine = engine_of(machine)
    host = HostCapacity(engine, overcommit=1)
    assert host.capacity.total.cpus == 4

    engine.machines["another"] = machine
    assert host.capacity.total.cpus == 4
    monkeypatch.setattr(host_capacity, "_FRESH_SECONDS", -1.0)

    assert host.capacity.total.cpus == 8


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        ([2, 2], ""),
        ([2, 1, 1], "a replica runs on one machine, and these have 2, 1, 1 GPUs"),
        ([3], "this machine has 3 GPUs in all"),
    ],
)
def test_gpus_are_those_of_one_machine_each(gpus: list[int], why: str) -> None:
    pool = make_pool()
    pool["machineSpec"] |= {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2}
    second = pool | {"replicaCount": 1}
    spec = custom_job_spec("project", "us-central1", "1", make_custom_job(pool, second))
    host = HostCapacity(engine_of(*(Resources(cpus=4, memory_bytes=9 * GIB, gpus=number) for number in gpus)))

    if not why:
        host.check_quota(spec, VERTEX_V1)
        return
    with pytest.raises(QuotaExceeded, match=why):
        host.check_quota(spec, VERTEX_V1)


def test_a_job_of_more_replicas_than_its_network_has_addresses_is_refused() -> None:
    class Narrow(MemoryEngine):
        def max_job_replicas(self) -> int | None:
            return 2

    spec = custom_job_spec(
        "project", "us-central1", "1", make_custom_job(make_pool(), make_pool() | {"replicaCount": 2})
    )

    host = HostCapacity(Narrow())
    assert host.capacity.job_replicas == 2

    with pytest.raises(QuotaExceeded, match="3 replicas, and the network of a job has addresses for 2"):
        host.check_quota(spec, VERTEX_V1)


def test_a_job_without_accelerators_is_taken_without_a_question_to_the_engine() -> None:
    class Silent(MemoryEngine):
        def hosts(self) -> Mapping[str, Resources]:
            raise AssertionError("a request must not wait for an engine that does not answer")

    spec = custom_job_spec("project", "us-central1", "1", make_custom_job(make_pool()))

    HostCapacity(Silent()).check_quota(spec, VERTEX_V1)


def test_vertex_ai_refuses_a_quota_in_its_own_words_and_says_the_way_out() -> None:
    pool = make_pool()
    pool["machineSpec"] |= {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 2}
    spec = custom_job_spec("project", "us-central1", "1", make_custom_job(pool))

    with pytest.raises(QuotaExceeded) as caught:
        HostCapacity(MemoryEngine()).check_quota(spec, VERTEX_V1)

    assert str(caught.value) == (
        "The following quota metrics exceed quota limits: "
        "aiplatform.googleapis.com/custom_model_training_nvidia_t4_gpus: this machine has 0 GPUs in all. Ask for "
        "fewer, or have the service run such jobs without (TRAINING_ACCELERATORS=ignore)."
    )


def test_who_cannot_wait_is_told_that_an_engine_that_hangs_is_unavailable() -> None:
    may_end = threading.Event()

    def hang() -> Capacity:
        may_end.wait()
        raise AssertionError

    ask = within(0.01, hang)

    with pytest.raises(EngineUnavailable, match=r"did not say what it has within 0\.01 s"):
        ask()
    may_end.set()


@pytest.mark.parametrize(
    ("of_engine", "setting", "networks"), [(None, 0, 0), (30, 0, 30), (30, 5, 5), (None, 5, 5)]
)
def test_networks_are_those_of_the_engine_unless_the_setting_says_otherwise(
    of_engine: int | None, setting: int, networks: int
) -> None:
    host = HostCapacity(MemoryEngine(networks=of_engine), max_networks=setting)

    assert host.capacity.networks == networks
