"""The state of the service as a whole, measured when somebody scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.fleet.wire import FleetResponse, Room
from training_service.store.jobs.success_store import SuccessStore
from training_service.telemetry.gauges import GAUGES, ServiceGauges

ROOM = Room(cpus=16.0, memory_bytes=2**36, gpus=1, replicas=0)
USED = Room(cpus=9.5, memory_bytes=2**30, gpus=0, replicas=2)


def measure(
    world: World, fleet: FleetResponse, volumes: Mapping[str, Path] | None = None, *, later: float = 0.0
) -> CollectorRegistry:
    """Return what a scrape finds ``later`` seconds from now."""
    successes = SuccessStore(world.database).newest
    now = world.engine.now + timedelta(seconds=later)
    registry = CollectorRegistry()
    registry.register(ServiceGauges(successes, lambda: fleet, volumes or {}, clock=lambda: now))
    return registry


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"training_{name}", labels)


def test_room_is_told_by_resource(world: World) -> None:
    registry = measure(world, FleetResponse(capacity=ROOM, used=USED))

    assert value(registry, "capacity", resource="cpus") == 16
    assert value(registry, "capacity", resource="gpus") == 1
    assert value(registry, "promised", resource="cpus") == 9.5
    assert value(registry, "promised", resource="replicas") == 2


def test_room_that_nobody_knows_is_not_told(world: World) -> None:
    registry = measure(world, FleetResponse())

    assert value(registry, "capacity", resource="cpus") is None
    assert value(registry, "promised", resource="cpus") is None


@pytest.mark.parametrize(("later", "waited"), [(60, 60), (-60, 0)])
def test_the_oldest_job_has_waited_and_never_less_than_nothing(
    world: World, later: float, waited: float
) -> None:
    fleet = FleetResponse(queue_length=1, oldest_queued_time=world.engine.now)

    assert value(measure(world, fleet, later=later), "oldest_queued_seconds") == waited
    assert value(measure(world, FleetResponse(), later=later), "oldest_queued_seconds") == 0


def test_the_last_success_is_told_by_dag_and_model(world: World) -> None:
    image = world.add_image(Behaviour(run_seconds=1))
    training = TrainingInput(master_config=ReplicaConfig(image_uri=str(image)))
    labels = {"airflow-dag": "train", "model": "digits"}
    world.jobs.create("project", Job(job_id="job", labels=labels, training_input=training))
    for _ in range(4):
        world.settle()
        world.engine.advance(1)
    ended = world.get().end_time
    assert ended is not None

    registry = measure(world, FleetResponse())

    found = value(registry, "last_success_timestamp_seconds", dag="train", model="digits")
    assert found == ended.timestamp()


def test_a_disk_that_is_not_there_is_left_out(world: World, tmp_path: Path) -> None:
    registry = measure(world, FleetResponse(), {"database": tmp_path, "engine": tmp_path / "absent"})

    size = value(registry, "disk_size_bytes", volume="database")
    free = value(registry, "disk_free_bytes", volume="database")
    assert size is not None
    assert free is not None
    assert 0 < free <= size
    assert value(registry, "disk_size_bytes", volume="engine") is None


def test_every_gauge_is_described_and_no_other_is_measured(world: World) -> None:
    fleet: Any = FleetResponse(capacity=ROOM, used=USED)
    gauges = ServiceGauges(SuccessStore(world.database).newest, lambda: fleet, {})

    assert {metric.name for metric in gauges.describe()} == set(GAUGES)
    assert {metric.name for metric in gauges.collect()} == set(GAUGES)
