"""Machines that Vertex AI does not have, and what comes nearest."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.fakes.described_jobs import broken, make_custom, make_job
from training_api.dialects.ml_v1.resources import Job
from training_api.job.accelerators import Accelerator
from training_api.job.machines import MACHINE_TYPES
from training_api.job.newer_machines import VERTEX_MACHINE_TYPES
from training_api.vertex_jobs.machines import nearest, nearest_accelerators
from training_api.vertex_jobs.writer import vertex_request


def machine_of(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = vertex_request(job).body["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]
    return found


@pytest.mark.parametrize("name", [name for name in MACHINE_TYPES if name not in VERTEX_MACHINE_TYPES])
def test_what_takes_the_place_of_a_machine_that_is_gone_exists_and_is_no_smaller(name: str) -> None:
    found = broken(make_custom(name))
    assert set(found) == {"trainingInput.masterType"}
    instead = re.search(
        r"the nearest is ([a-z0-9-]+)(?: with \S+ (\d+) x (\w+))?$", found["trainingInput.masterType"]
    )

    assert instead is not None
    gone, there = MACHINE_TYPES[name], VERTEX_MACHINE_TYPES[instead[1]]
    assert there.cpus >= gone.cpus
    assert there.memory_bytes >= gone.memory_bytes
    assert bool(instead[2]) == bool(gone.gpus)
    config = {"acceleratorConfig": {"type": instead[3], "count": instead[2]}} if instead[2] else {}
    assert machine_of(make_custom(there.name, **config))["machineType"] == there.name


def test_the_nearest_are_the_smallest_that_have_all() -> None:
    assert nearest(MACHINE_TYPES["n1-highcpu-8"]).name == "n1-standard-8"
    assert nearest(MACHINE_TYPES["complex_model_m"]).name == "n1-highcpu-16"
    assert nearest_accelerators(Accelerator.NVIDIA_TESLA_K80, 8) == (Accelerator.NVIDIA_TESLA_T4, 4)
    assert nearest_accelerators(Accelerator.NVIDIA_TESLA_V100, 8) == (Accelerator.NVIDIA_TESLA_V100, 8)


@pytest.mark.parametrize(
    ("tier", "instead"),
    [
        (
            "STANDARD_1",
            "workerType n1-standard-8 and workerCount 4, parameterServerType n1-standard-4 and parameterServerCount 3",
        ),
        ("BASIC_GPU", "masterType n1-standard-8 and masterConfig.acceleratorConfig 1 x NVIDIA_TESLA_T4"),
        ("BASIC_TPU", "g2-standard-8"),
    ],
)
def test_a_tier_with_a_machine_that_is_gone_names_the_nearest_layout(tier: str, instead: str) -> None:
    found = broken(make_job(scaleTier=tier))

    assert set(found) == {"trainingInput.scaleTier"}
    assert instead in found["trainingInput.scaleTier"]


@pytest.mark.parametrize("name", ["cloud_tpu", "ct5lp-hightpu-1t"])
def test_machines_with_tpus_name_ones_with_gpus(name: str) -> None:
    found = broken(make_custom(name))

    assert set(found) == {"trainingInput.masterType"}
    assert "g2-standard-8" in found["trainingInput.masterType"]


@pytest.mark.parametrize(
    ("kind", "count", "field", "said"),
    [
        ("NVIDIA_TESLA_K80", 8, "type", "4 x NVIDIA_TESLA_T4"),
        ("TPU_V3", 8, "type", "g2-standard-8"),
        ("ACCELERATOR_TYPE_UNSPECIFIED", 1, "type", "must be set"),
        ("NVIDIA_TESLA_A100", 1, "type", "machine types of its own"),
        ("NVIDIA_TESLA_T4", 3, "count", "1, 2, 4"),
    ],
)
def test_accelerators_that_cannot_be_had_are_named(kind: str, count: int, field: str, said: str) -> None:
    found = broken(make_custom("n1-standard-8", acceleratorConfig={"type": kind, "count": count}))

    assert set(found) == {f"trainingInput.masterConfig.acceleratorConfig.{field}"}
    assert said in "".join(found.values())


def test_a_machine_that_nobody_knows_is_told_all_names() -> None:
    assert "e2-standard-4" in broken(make_custom("huge"))["trainingInput.masterType"]


def test_newer_machines_tell_the_gpus_that_they_come_with() -> None:
    assert machine_of(make_custom("e2-standard-4")) == {"machineType": "e2-standard-4"}
    assert machine_of(make_custom("g2-standard-24")) == {
        "machineType": "g2-standard-24",
        "acceleratorType": "NVIDIA_L4",
        "acceleratorCount": 2,
    }


def test_a_tier_takes_no_accelerators() -> None:
    config = {"imageUri": "registry.test/p/i:1", "acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": 1}}

    assert set(broken(make_job(masterConfig=config))) == {"trainingInput.masterConfig.acceleratorConfig"}
