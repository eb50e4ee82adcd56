"""Accelerators: those attached, those that come with a machine, and those refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.job_requests import make_job, make_spec, violations_of
from training_api.dialects.ml_v1.resources import Job
from training_api.job.replica_spec import ReplicaSpec

A100 = "NVIDIA_TESLA_A100"
NO_TPU = "this service has no TPUs; use a machine type with CPUs or GPUs"
CONFIG = "trainingInput.masterConfig.acceleratorConfig"


def custom_job(machine: str, accelerators: dict[str, Any]) -> Job:
    return make_job(scale_tier="CUSTOM", master_type=machine, master={"accelerator_config": accelerators})


def custom_master(machine: str, accelerators: dict[str, Any]) -> ReplicaSpec:
    master = {"accelerator_config": accelerators}
    return make_spec(scale_tier="CUSTOM", master_type=machine, master=master).master


@pytest.mark.parametrize("config", [{}, {"count": 0}, {"count": "0", "type": "NVIDIA_TESLA_T4"}])
def test_no_accelerators_are_no_mistake(config: dict[str, Any]) -> None:
    assert make_spec(master={"accelerator_config": config}).replicas == make_spec().replicas


@pytest.mark.parametrize("count", [1, "2", 4])
def test_accelerators_are_attached_to_a_compute_engine_machine(count: Any) -> None:
    master = custom_master("n1-standard-4", {"count": count, "type": "NVIDIA_TESLA_T4"})

    assert (master.gpus, master.gpu) == (int(count), "NVIDIA_TESLA_T4")


@pytest.mark.parametrize(
    ("machine", "accelerators", "path", "description"),
    [
        ("n1-standard-4", {"count": 1}, ".type", "must be set when count is more than 0"),
        (
            "n1-standard-4",
            {"count": 3, "type": "NVIDIA_TESLA_T4"},
            ".count",
            "must be one of 1, 2, 4 for NVIDIA_TESLA_T4; got 3",
        ),
        (
            "standard",
            {"count": 1, "type": "NVIDIA_TESLA_T4"},
            "",
            "can only be set with scaleTier CUSTOM and a Compute Engine machine type",
        ),
        ("n1-standard-4", {"count": 1, "type": "TPU_V2"}, ".type", f"{NO_TPU}; got TPU_V2"),
        (
            "n1-standard-4",
            {"count": 1, "type": A100},
            ".type",
            f"{A100} comes with the machine types a2-* only",
        ),
        (
            "a2-highgpu-2g",
            {"count": 1, "type": A100},
            "",
            f"a2-highgpu-2g comes with 2 x {A100}; got 1 x {A100}",
        ),
    ],
)
def test_other_accelerators_are_refused(
    machine: str, accelerators: dict[str, Any], path: str, description: str
) -> None:
    assert violations_of(custom_job(machine, accelerators)) == [(f"{CONFIG}{path}", description)]


def test_a_machine_with_built_in_accelerators_may_say_so_again() -> None:
    master = custom_master("a2-highgpu-2g", {"count": 2, "type": A100})

    assert (master.gpus, master.gpu) == (2, A100)


def test_a_basic_job_has_no_accelerators() -> None:
    job = make_job(master={"accelerator_config": {"count": 1, "type": "NVIDIA_TESLA_T4"}})

    assert violations_of(job) == [
        (CONFIG, "can only be set with scaleTier CUSTOM and a Compute Engine machine type")
    ]
