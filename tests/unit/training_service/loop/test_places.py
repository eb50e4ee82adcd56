"""Jobs on several machines: each replica goes to a machine that has room, or its job waits."""

from __future__ import annotations

import pytest

from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.machines import GIB, Resources
from training_api.job.placement import Placement
from training_api.states import JobState
from training_service.model import host_capacity
from training_service.model.placement_label import PLACEMENT_LABEL
from training_service.store.database import open_database

LONG = Behaviour(run_seconds=600)
#: Machine types of four cores and of two.
FOUR, TWO = "n1-standard-4", "n1-highmem-2"


def world_of(*cpus: float, placement: Placement = Placement.SPREAD) -> World:
    """Return a service over machines of so many cores, which are promised once."""
    engine = MemoryEngine()
    engine.machines = {
        f"n{number}": Resources(cpus=cores, memory_bytes=101 * GIB) for number, cores in enumerate(cpus, 1)
    }
    world = World(
        open_database("sqlite://"), engine=engine, max_replicas=0, overcommit=1, placement=placement
    )
    world.add_image(LONG)
    return world


def submit(
    world: World,
    job_id: str,
    master: str,
    workers: int = 0,
    worker: str = TWO,
    labels: dict[str, str] | None = None,
) -> None:
    training = TrainingInput(
        scale_tier="CUSTOM", master_type=master, master_config=ReplicaConfig(image_uri=IMAGE)
    )
    if workers:
        training = training.model_copy(update={"worker_type": worker, "worker_count": workers})
    world.jobs.create(PROJECT, Job(job_id=job_id, training_input=training, labels=labels))


def machines_of(world: World, job_id: str) -> list[str]:
    return sorted(each.machine for each in world.engine.launches() if each.job_id == job_id)


def test_replicas_of_a_job_are_spread_and_have_their_share_reserved() -> None:
    world = world_of(4, 4, 4)
    submit(world, "job", TWO, workers=2)

    world.settle()

    assert world.state() is JobState.RUNNING
    assert machines_of(world, "job") == ["n1", "n2", "n3"]
    (reserved,) = {each.reserved for each in world.engine.launches()}
    assert reserved is not None
    assert (reserved.cpus, reserved.memory_bytes) == (2, 13 * GIB)


def test_a_service_that_packs_puts_a_job_on_one_machine_unless_the_job_wants_it_otherwise() -> None:
    world = world_of(8, 8, 8, placement=Placement.PACK)
    submit(world, "packed", TWO, workers=2)
    submit(world, "spread", TWO, workers=2, labels={PLACEMENT_LABEL: "spread"})

    world.settle()

    assert len(set(machines_of(world, "packed"))) == 1
    assert machines_of(world, "spread") == ["n1", "n2", "n3"]


def test_a_job_waits_while_no_machine_has_room_for_it_however_much_there_is_in_sum() -> None:
    world = world_of(4, 4)
    submit(world, "first", TWO)
    submit(world, "second", TWO)
    world.settle()
    assert machines_of(world, "first") != machines_of(world, "second")

    submit(world, "large", FOUR)
    world.settle()
    assert world.state("large") is JobState.QUEUED  # four cores are free, but on two machines

    world.jobs.cancel(PROJECT, "first")
    world.settle()
    assert world.state("large") is JobState.RUNNING


def test_a_machine_that_is_drained_gets_no_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_capacity, "_FRESH_SECONDS", -1.0)
    world = world_of(4, 4)
    submit(world, "first", TWO)
    world.settle()
    (used,) = machines_of(world, "first")

    (free,) = set(world.engine.machines) - {used}
    del world.engine.machines[free]
    submit(world, "second", TWO)
    submit(world, "third", TWO)
    world.settle()

    assert machines_of(world, "second") == [used]
    assert world.state("third") is JobState.QUEUED


def test_a_job_that_is_larger_than_all_machines_is_made_smaller_until_each_replica_has_one() -> None:
    world = world_of(4, 4)
    submit(world, "job", FOUR, workers=2, worker=FOUR)

    world.settle()

    assert world.state() is JobState.RUNNING
    sizes = {each.resources.cpus for each in world.engine.launches()}
    assert len(sizes) == 1
    assert sizes.pop() == pytest.approx(2, rel=0.01)  # three equal replicas: two of them on one machine
    assert set(machines_of(world, "job")) == {"n1", "n2"}


def test_a_restarted_replica_goes_where_room_is_after_its_machine_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_capacity, "_FRESH_SECONDS", -1.0)
    world = world_of(4, 4, 4)
    submit(world, "job", TWO, workers=2)
    world.settle()
    (lost,) = [each for each in world.engine.launches() if each.machine == "n2"]

    del world.engine.machines["n2"]
    world.engine.lose(lost.job_uid, lost.replica)
    world.settle()

    assert world.state() is JobState.RUNNING
    assert len(world.engine.launches()) == 3
    assert set(machines_of(world, "job")) == {"n1", "n3"}


def test_after_a_restart_of_the_service_running_replicas_count_where_they_are() -> None:
    world = world_of(4, 4)
    submit(world, "first", FOUR)
    world.settle()

    world.restart()
    submit(world, "second", FOUR)
    submit(world, "third", TWO)
    world.settle()

    assert machines_of(world, "first") != machines_of(world, "second")
    assert world.state("third") is JobState.QUEUED
