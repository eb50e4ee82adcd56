from __future__ import annotations

import pytest

from training_api.dialects.ml_v1.promised_room import capacity_from, machine_type, promised_room
from training_api.dialects.ml_v1.resources import TrainingInput
from training_api.fleet.wire import Room
from training_api.job.capacity import Load
from training_api.job.machines import GIB

BIG = Room(cpus=1000, memory_bytes=4000 * GIB, gpus=8, replicas=0)


def custom(**fields: object) -> TrainingInput:
    return TrainingInput.model_validate({"scaleTier": "CUSTOM", "masterType": "n1-standard-4"} | fields)


@pytest.mark.parametrize(
    ("training", "load"),
    [
        (TrainingInput(), Load(replicas=1, cpus=4, memory_bytes=15 * GIB)),
        (
            custom(workerType="n1-standard-8", workerCount="2"),
            Load(replicas=3, cpus=20, memory_bytes=75 * GIB),
        ),
        (
            custom(masterConfig={"acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}}),
            Load(replicas=1, cpus=4, memory_bytes=15 * GIB, gpus=2),
        ),
        (
            TrainingInput.model_validate({"scaleTier": "BASIC_GPU"}),
            Load(replicas=1, cpus=8, memory_bytes=30 * GIB, gpus=1),
        ),
        (custom(masterType="of-the-future"), Load(replicas=1)),
    ],
)
def test_job_holds_all_its_machines(training: TrainingInput, load: Load) -> None:
    assert promised_room(training, capacity_from(BIG, None)) == load
    assert promised_room(training, None) == load


def test_machines_are_cut_to_what_one_container_may_have() -> None:
    each = Room(cpus=2, memory_bytes=4 * GIB, gpus=0, replicas=1)
    total = Room(cpus=8, memory_bytes=16 * GIB, gpus=0, replicas=0)

    load = promised_room(
        custom(workerType="n1-standard-8", workerCount="1"), capacity_from(total, largest=each)
    )

    assert load == Load(replicas=2, cpus=4, memory_bytes=8 * GIB)


@pytest.mark.parametrize(
    ("training", "name"),
    [
        (TrainingInput(), "n1-standard-4"),
        (custom(workerType="n1-standard-8", workerCount="9"), "n1-standard-4"),
        (
            custom(masterConfig={"acceleratorConfig": {"count": "2", "type": "NVIDIA_TESLA_T4"}}),
            "n1-standard-4 + 2 x NVIDIA_TESLA_T4",
        ),
    ],
)
def test_machine_type_is_the_masters(training: TrainingInput, name: str) -> None:
    assert machine_type(training) == name
