"""What the replicas of a job get of a machine, and whether there is room for one more job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.job.capacity import Capacity, Load, grants, has_room, load_of
from training_api.job.machines import GIB, Resources
from training_api.job.replica_spec import ReplicaSpec

SMALL = Capacity(
    each=Resources(cpus=2, memory_bytes=23 * GIB), total=Resources(cpus=8, memory_bytes=92 * GIB)
)


def replicas(**training: Any) -> tuple[ReplicaSpec, ...]:
    sent = {"masterConfig": {"imageUri": "gcr.io/demo/train:1"}} | training
    return job_spec_from_wire(
        "demo", Job(job_id="job", training_input=TrainingInput.model_validate(sent))
    ).replicas


def test_a_machine_type_is_cut_to_what_one_container_may_have() -> None:
    assert grants(replicas(), SMALL) == [Resources(cpus=2, memory_bytes=15 * GIB)]


def test_a_job_that_is_larger_than_the_machine_is_scaled_down_alike() -> None:
    granted = grants(replicas(scaleTier="PREMIUM_1"), SMALL)

    assert len({each.cpus for each in granted}) == 1
    load = load_of(granted)
    assert load.cpus == pytest.approx(8)
    assert load.memory_bytes == pytest.approx(92 * GIB, rel=1e-6)


def test_four_basic_jobs_share_a_machine_of_two_cores_that_is_promised_four_times() -> None:
    basic = load_of(grants(replicas(), SMALL))

    assert has_room(basic + basic + basic, basic, SMALL)
    assert not has_room(basic + basic + basic + basic, basic, SMALL)


@pytest.mark.parametrize(
    ("used", "job", "expected"),
    [
        (Load(), Load(replicas=9, cpus=99, memory_bytes=999 * GIB), True),  # alone, whatever its size
        (Load(replicas=2), Load(replicas=1), True),
        (Load(replicas=2), Load(replicas=2), False),
        (Load(replicas=1, cpus=7), Load(replicas=1, cpus=1), True),
        (Load(replicas=1, cpus=7), Load(replicas=1, cpus=1.1), False),
        (Load(replicas=1, memory_bytes=91 * GIB), Load(replicas=1, memory_bytes=2 * GIB), False),
        (Load(replicas=1, gpus=1), Load(replicas=1, gpus=1), False),
    ],
)
def test_a_job_starts_whole_or_not_at_all(used: Load, job: Load, expected: bool) -> None:
    room = Capacity(each=SMALL.each, total=SMALL.total, replicas=3)

    assert has_room(used, job, room) is expected


@settings(max_examples=60, deadline=None)
@given(
    tier=st.sampled_from(["BASIC", "STANDARD_1", "PREMIUM_1"]),
    cpus=st.floats(0.5, 256),
    gigabytes=st.integers(8, 4096),
    overcommit=st.floats(1, 8),
)
def test_every_job_fits_into_an_empty_machine(
    tier: str, cpus: float, gigabytes: int, overcommit: float
) -> None:
    each = Resources(cpus=cpus, memory_bytes=gigabytes * GIB)
    total = Resources(cpus=cpus * overcommit, memory_bytes=int(gigabytes * GIB * overcommit))
    capacity = Capacity(each=each, total=total)

    granted = grants(replicas(scaleTier=tier), capacity)

    assert all(
        one.cpus <= max(each.cpus, 0.05) and one.memory_bytes <= max(each.memory_bytes, 64 * 1024**2)
        for one in granted
    )
    load = load_of(granted)
    assert load.memory_bytes <= total.memory_bytes
    assert load.cpus <= max(total.cpus, 0.05 * len(granted)) * 1.000001
