"""Whether a service has room for one more job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from container_training.work.submission.room import why_no_room
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job
from training_api.fleet.wire import FleetResponse, Room
from training_api.job.replica_spec import ReplicaSpec

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
GIB = 1024**3
LARGEST = Room(cpus=8, memory_bytes=32 * GIB, gpus=1, replicas=1)
CAPACITY = Room(cpus=8, memory_bytes=32 * GIB, gpus=1, replicas=4)


def replicas(**training: Any) -> tuple[ReplicaSpec, ...]:
    given = {
        "scaleTier": "CUSTOM",
        "masterType": "n1-standard-4",
        "region": "us-central1",
        "masterConfig": {"imageUri": "registry.test/demo/trainer:1"},
        **training,
    }
    job = Job.model_validate({"jobId": "a", "trainingInput": given})
    return job_spec_from_wire("demo", job).replicas


def fleet(**changes: Any) -> FleetResponse:
    return FleetResponse(capacity=CAPACITY, largest=LARGEST, used=CAPACITY).model_copy(update=changes)


def reason(wanted: tuple[ReplicaSpec, ...], said: FleetResponse, now: datetime = NOW, **changes: Any) -> str:
    return why_no_room(wanted, said, now, **{"longest_wait": timedelta(minutes=10), **changes})


def test_a_full_service_whose_queue_is_short_has_room() -> None:
    assert reason(replicas(), fleet()) == ""
    assert reason(replicas(), fleet(queue_length=9, oldest_queued_time=NOW - timedelta(minutes=10))) == ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"capacity": None}, "its engine does not answer"),
        ({"hold": "the disk is full"}, "it admits no job: the disk is full"),
        (
            {"queue_length": 3, "oldest_queued_time": NOW - timedelta(minutes=12, seconds=30)},
            "the oldest of 3 queued jobs waits for 12.5 minutes, more than 10",
        ),
    ],
)
def test_a_service_that_starts_no_job_soon_has_none(changes: dict[str, Any], expected: str) -> None:
    assert reason(replicas(), fleet(**changes)) == expected


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        (
            {"masterType": "n1-standard-16"},
            "n1-standard-16 has 16 cores and 60 GiB, the largest container 8 cores and 32 GiB",
        ),
        (
            {"masterType": "n1-highmem-8"},
            "n1-highmem-8 has 8 cores and 52 GiB, the largest container 8 cores and 32 GiB",
        ),
        (
            {"workerType": "n1-standard-4", "workerCount": "4", "workerConfig": {}},
            "the job has 5 replicas, the service takes 4 containers",
        ),
        (
            {
                "masterType": "n1-standard-8",
                "masterConfig": {
                    "imageUri": "registry.test/demo/trainer:1",
                    "acceleratorConfig": {"type": "NVIDIA_TESLA_T4", "count": "2"},
                },
            },
            "the job has 2 accelerators, the service 1",
        ),
    ],
)
def test_a_job_that_is_larger_than_the_service_does_not_fit(training: dict[str, Any], expected: str) -> None:
    assert reason(replicas(**training), fleet()) == expected


def test_a_service_may_scale_machines_down_but_not_accelerators() -> None:
    large = replicas(masterType="n1-standard-16")
    with_gpus = replicas(masterType="standard_p100")

    assert reason(large, fleet(), is_scaled_down=True) == ""
    assert "accelerators" in reason(
        with_gpus, fleet(capacity=CAPACITY.model_copy(update={"gpus": 0})), is_scaled_down=True
    )


def test_jobs_go_on_to_the_next_service_only_while_the_queue_is_long() -> None:
    """A day of arrivals at a service that runs one job at a time, on a clock of its own."""
    longest, takes = timedelta(minutes=30), timedelta(minutes=25)
    # Six jobs an hour until eight, of which the service does 2.4; then one an hour.
    arrivals = [NOW + timedelta(minutes=m) for m in (*range(0, 480, 10), *range(480, 1440, 60))]
    queue: list[datetime] = []
    free_at, elsewhere, waits = NOW, [], []
    for now in arrivals:
        while queue and free_at <= now:
            waits.append(max(free_at, queue[0]) - queue[0])
            free_at = max(free_at, queue.pop(0)) + takes
        said = fleet(queue_length=len(queue), oldest_queued_time=queue[0] if queue else None)
        if reason(replicas(), said, now, longest_wait=longest):
            elsewhere.append(now)
        else:
            queue.append(now)

    assert 20 < len(elsewhere) < 35
    # None while few come, but for what the morning left behind.
    assert max(elsewhere) < NOW + timedelta(minutes=600)
    assert max(waits) < longest + 4 * takes
