"""The machine types of Vertex AI."""

from __future__ import annotations

import pytest

from training_api.job.accelerators import Accelerator
from training_api.job.machines import GIB, MACHINE_TYPES
from training_api.job.newer_machines import ALL_MACHINE_TYPES, VERTEX_MACHINE_TYPES


@pytest.mark.parametrize(
    ("name", "cores", "gb"),
    [
        ("e2-standard-4", 4, 16),
        ("e2-highmem-16", 16, 128),
        ("e2-highcpu-32", 32, 32),
        ("n2-standard-80", 80, 320),
        ("n4-highcpu-2", 2, 4),
        ("c2-standard-60", 60, 240),
        ("m1-megamem-96", 96, 1433.6),
    ],
)
def test_a_machine_has_the_size_of_its_name(name: str, cores: int, gb: float) -> None:
    machine = VERTEX_MACHINE_TYPES[name]

    assert (machine.cpus, machine.memory_bytes, machine.gpus) == (cores, int(gb * GIB), 0)


@pytest.mark.parametrize(
    ("name", "gpus", "gpu"),
    [
        ("g2-standard-32", 1, Accelerator.NVIDIA_L4),
        ("g2-standard-96", 8, Accelerator.NVIDIA_L4),
        ("a2-highgpu-1g", 1, Accelerator.NVIDIA_TESLA_A100),
        ("a2-ultragpu-8g", 8, Accelerator.NVIDIA_A100_80GB),
        ("a3-highgpu-8g", 8, Accelerator.NVIDIA_H100_80GB),
    ],
)
def test_a_machine_comes_with_its_accelerators(name: str, gpus: int, gpu: Accelerator) -> None:
    assert (VERTEX_MACHINE_TYPES[name].gpus, VERTEX_MACHINE_TYPES[name].gpu) == (gpus, gpu)


def test_legacy_names_and_the_smallest_highcpu_are_not_of_vertex_ai() -> None:
    assert not {"standard", "complex_model_m", "n1-highcpu-8"} & VERTEX_MACHINE_TYPES.keys()
    assert {"n1-standard-4", "n1-highmem-2", "n1-highcpu-16"} <= VERTEX_MACHINE_TYPES.keys()


def test_what_is_stored_of_either_dialect_has_its_machine() -> None:
    assert ALL_MACHINE_TYPES.keys() == MACHINE_TYPES.keys() | VERTEX_MACHINE_TYPES.keys()
