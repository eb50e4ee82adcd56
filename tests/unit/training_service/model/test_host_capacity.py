"""The room of several machines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from container_engines.memory.engine import MemoryEngine
from training_api.job.machines import GIB, Resources
from training_service.model import host_capacity
from training_service.model.host_capacity import HostCapacity


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
