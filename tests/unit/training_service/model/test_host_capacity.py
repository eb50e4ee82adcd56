"""The room of several machines."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from container_engines.memory.engine import MemoryEngine
from training_api.errors import EngineUnavailable
from training_api.job.capacity import Capacity
from training_api.job.machines import GIB, Resources
from training_service.model import host_capacity
from training_service.model.host_capacity import HostCapacity, within


class ManyHosts(MemoryEngine):
    def __init__(self, *hosts: Resources) -> None:
        super().__init__()
        self.machines = list(hosts)

    def hosts(self) -> Sequence[Resources]:
        return self.machines


def test_machines_add_up_and_a_container_is_on_one_of_them() -> None:
    engine = ManyHosts(
        Resources(cpus=4, memory_bytes=9 * GIB, gpus=1), Resources(cpus=8, memory_bytes=5 * GIB, gpus=0)
    )

    capacity = HostCapacity(engine, overcommit=2).capacity

    # A gigabyte of each machine is nobody's.
    assert capacity.each == Resources(cpus=8, memory_bytes=8 * GIB, gpus=1)
    assert capacity.total == Resources(cpus=24, memory_bytes=24 * GIB, gpus=1)


def test_a_machine_that_joins_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Resources(cpus=4, memory_bytes=9 * GIB)
    engine = ManyHosts(machine)
    host = HostCapacity(engine, overcommit=1)
    assert host.capacity.total.cpus == 4

    engine.machines.append(machine)
    assert host.capacity.total.cpus == 4
    monkeypatch.setattr(host_capacity, "_FRESH_SECONDS", -1.0)

    assert host.capacity.total.cpus == 8


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
