from __future__ import annotations

import pytest

from training_api.job.capacity import Capacity, Load
from training_api.job.machines import GIB, Resources
from training_service.model.job_machines import (
    RoleMachines,
    cost_per_second,
    machines_name,
    promised_room,
)

_HUGE = Resources(cpus=1000, memory_bytes=4000 * GIB, gpus=8)
BIG = Capacity(each=_HUGE, total=_HUGE)
SMALL = RoleMachines(machine="n1-standard-4", count=1)
WORKERS = RoleMachines(machine="n1-standard-8", count=2)
WITH_GPUS = RoleMachines(machine="n1-standard-4", count=1, gpus=2, gpu="NVIDIA_TESLA_T4")
#: One GPU comes with the machine.
GPU_MACHINE = RoleMachines(machine="standard_gpu", count=1, gpus=1, gpu="NVIDIA_TESLA_K80")
UNKNOWN = RoleMachines(machine="of-the-future", count=3)


@pytest.mark.parametrize(
    ("roles", "load"),
    [
        ([SMALL], Load(replicas=1, cpus=4, memory_bytes=15 * GIB)),
        ([SMALL, WORKERS], Load(replicas=3, cpus=20, memory_bytes=75 * GIB)),
        ([WITH_GPUS], Load(replicas=1, cpus=4, memory_bytes=15 * GIB, gpus=2)),
        ([GPU_MACHINE], Load(replicas=1, cpus=8, memory_bytes=30 * GIB, gpus=1)),
        ([UNKNOWN], Load(replicas=3)),
        ([], Load()),
    ],
)
def test_job_holds_all_its_machines(roles: list[RoleMachines], load: Load) -> None:
    assert promised_room(roles, BIG) == load
    assert promised_room(roles, None) == load


def test_machines_are_cut_to_what_one_container_may_have() -> None:
    each = Resources(cpus=2, memory_bytes=4 * GIB, gpus=0)
    total = Resources(cpus=8, memory_bytes=16 * GIB, gpus=0)

    load = promised_room(
        [SMALL, RoleMachines(machine="n1-standard-8", count=1)], Capacity(each=each, total=total)
    )

    assert load == Load(replicas=2, cpus=4, memory_bytes=8 * GIB)


@pytest.mark.parametrize(
    ("roles", "name"),
    [
        ([SMALL], "n1-standard-4"),
        ([SMALL, WORKERS], "n1-standard-4"),
        ([WITH_GPUS], "n1-standard-4 + 2 x NVIDIA_TESLA_T4"),
        ([GPU_MACHINE], "standard_gpu"),
        ([UNKNOWN], "of-the-future"),
        ([], "unknown"),
    ],
)
def test_name_is_that_of_the_masters_machine(roles: list[RoleMachines], name: str) -> None:
    assert machines_name(roles) == name


@pytest.mark.parametrize(
    ("roles", "rate"),
    [
        ([SMALL, WORKERS], 0.5 + 2 * 0.25),
        ([WITH_GPUS], 0.5 + 2 * 1.0),
        ([GPU_MACHINE], 3.0),
        ([SMALL, UNKNOWN], None),
        ([], None),
    ],
)
def test_each_machine_and_each_added_accelerator_has_its_price(
    roles: list[RoleMachines], rate: float | None
) -> None:
    prices = {"n1-standard-4": 0.5, "n1-standard-8": 0.25, "NVIDIA_TESLA_T4": 1.0, "standard_gpu": 3.0}

    assert cost_per_second(roles, prices) == rate


def test_machines_of_vertex_ai_have_a_size_and_their_own_accelerators() -> None:
    worker = RoleMachines(machine="e2-standard-4", count=2)
    load = promised_room([worker], None)

    assert (load.replicas, load.cpus) == (2, 8)
    assert RoleMachines(machine="g2-standard-4", count=1, gpus=1, gpu="NVIDIA_L4").accelerators == 0
