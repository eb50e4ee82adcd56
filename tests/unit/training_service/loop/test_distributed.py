"""Jobs of several replicas on the memory engine: start, restart, retry, end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from container_engines.base import EngineView
from container_engines.memory.engine import Behaviour, MemoryEngine
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.resources import ReplicaConfig
from training_api.errors import QuotaExceeded
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import GIB, Resources
from training_api.states import JobState, ReplicaState
from training_service.api.ml_v1.wire_jobs import WireJobs
from training_service.model.host_capacity import Accelerators, HostCapacity
from training_service.store.database import open_database
from training_service.studies.output import TuningOutputs
from training_service.use_cases.jobs import Jobs

MASTER_IMAGE = "registry.test/project/master:1"
WORKER_IMAGE = "registry.test/project/worker:1"
PS_IMAGE = "registry.test/project/ps:1"
MASTER = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER)
LONG = Behaviour(run_seconds=10**6)


@pytest.fixture
def world() -> World:
    return World(open_database("sqlite://"), max_replicas=8)


def submit(
    world: World,
    *,
    master: Behaviour | None = LONG,
    worker: Behaviour | None = LONG,
    ps: Behaviour | None = LONG,
    job_id: str = "job",
    **training: Any,
) -> None:
    """Submit a master, two workers and a parameter server; ``None``: an image is missing."""
    for image, behaviour in ((MASTER_IMAGE, master), (WORKER_IMAGE, worker), (PS_IMAGE, ps)):
        if behaviour:
            world.add_image(behaviour, image)
    cluster = {
        "scale_tier": "CUSTOM",
        "master_type": "n1-standard-4",
        "worker_type": "n1-standard-4",
        "worker_count": 2,
        "worker_config": ReplicaConfig(image_uri=WORKER_IMAGE),
        "parameter_server_type": "n1-standard-4",
        "parameter_server_count": 1,
        "parameter_server_config": ReplicaConfig(image_uri=PS_IMAGE),
    }
    world.submit(job_id, MASTER_IMAGE, **cluster | training)


def uid(world: World, job_id: str = "job") -> str:
    return world.store.get(PROJECT, job_id).uid


def states(world: World) -> dict[str, ReplicaState]:
    return {each.replica.task_name: each.state for each in world.engine.observe().replicas}


def test_all_replicas_start_before_the_job_runs(world: World) -> None:
    submit(world)
    world.settle()

    assert world.state() is JobState.RUNNING
    assert states(world) == dict.fromkeys(
        ["master-replica-0", "worker-replica-0", "worker-replica-1", "ps-replica-0"], ReplicaState.RUNNING
    )


def test_each_role_runs_its_own_image_and_knows_the_whole_cluster(world: World) -> None:
    submit(world)
    world.settle()

    launches = {launch.replica.task_name: launch for launch in world.engine.launches()}
    assert {name: launch.image_id for name, launch in launches.items()} == {
        "master-replica-0": MASTER_IMAGE,
        "worker-replica-0": WORKER_IMAGE,
        "worker-replica-1": WORKER_IMAGE,
        "ps-replica-0": PS_IMAGE,
    }
    specs = [json.loads(launch.environment["CLUSTER_SPEC"]) for launch in launches.values()]
    assert all(spec["cluster"] == specs[0]["cluster"] for spec in specs)
    assert {role: len(hosts) for role, hosts in specs[0]["cluster"].items()} == {
        "master": 1,
        "worker": 2,
        "ps": 1,
    }
    hosts = {host for hosts in specs[0]["cluster"].values() for host in hosts}
    assert hosts == {f"{launch.host_name}:2222" for launch in launches.values()}


def test_the_masters_success_ends_the_job_and_stops_the_others(world: World) -> None:
    submit(world, master=Behaviour(run_seconds=60))
    world.settle()
    world.engine.advance(60)

    world.step()  # decided
    assert world.state() is JobState.RUNNING
    assert world.get().error_message is None
    world.settle()

    assert world.state() is JobState.SUCCEEDED
    assert world.engine.observe() == EngineView()


def test_a_worker_that_has_done_its_part_does_not_end_the_job(world: World) -> None:
    submit(world, worker=Behaviour(run_seconds=5))
    world.settle()
    world.engine.advance(10)
    world.settle()

    assert world.state() is JobState.RUNNING
    assert states(world)["worker-replica-0"] is ReplicaState.EXITED


@pytest.mark.parametrize(
    ("role", "message"),
    [
        ("worker", "The replica worker 0 exited with a non-zero status of 1. The replica worker 1 exited"),
        ("ps", "The replica ps 0 exited with a non-zero status of 1."),
    ],
)
def test_a_permanent_failure_of_any_replica_fails_the_job(world: World, role: str, message: str) -> None:
    submit(world, **{role: Behaviour(run_seconds=5, exit_code=1)})
    world.settle()
    world.engine.advance(5)
    world.settle()

    assert world.state() is JobState.FAILED
    assert (world.get().error_message or "").startswith(message)
    assert world.engine.observe() == EngineView()


def test_a_killed_worker_is_started_again_under_its_name_while_the_others_go_on(world: World) -> None:
    submit(world)
    world.settle()
    master_before = world.engine.observe().replicas[0]

    world.engine.end(uid(world), WORKER, 137)
    world.settle()

    runs = [launch for launch in world.engine.launches() if launch.replica == WORKER]
    assert [str(launch.attempt) for launch in runs] == ["0.0", "0.1"]
    assert runs[0].host_name == runs[1].host_name
    assert master_before in world.engine.observe().replicas
    assert world.state() is JobState.RUNNING
    assert any("worker-replica-0 restart 1 of 5" in message for message in world.messages())


def test_a_lost_container_is_started_again(world: World) -> None:
    submit(world)
    world.settle()

    world.engine.lose(uid(world), WORKER)
    world.settle()

    assert states(world)["worker-replica-0"] is ReplicaState.RUNNING
    assert world.store.get(PROJECT, "job").attempts.restarts == {"worker-replica-0": 1}
    assert any("worker 0 was lost" in message for message in world.messages())


def test_a_job_goes_on_after_a_crash_of_the_engines_machine(world: World) -> None:
    submit(world)
    world.settle()

    world.engine.crash()
    world.settle()

    assert world.state() is JobState.RUNNING
    assert set(world.store.get(PROJECT, "job").attempts.restarts.values()) == {1}
    assert any("the engine or its machine stopped while it ran" in message for message in world.messages())


def test_a_trainer_that_ends_with_255_has_failed(world: World) -> None:
    submit(world, master=Behaviour(run_seconds=5, exit_code=255))
    world.settle()

    world.engine.advance(5)
    world.settle()

    assert world.state() is JobState.FAILED


def test_a_worker_that_recovers_lets_the_job_succeed(world: World) -> None:
    submit(
        world, master=Behaviour(run_seconds=100), worker=Behaviour(run_seconds=5, exit_code=143, failures=3)
    )
    for _ in range(30):
        world.settle()
        world.engine.advance(5)

    assert world.state() is JobState.SUCCEEDED


def test_after_five_restarts_the_job_is_retried_and_after_three_retries_it_fails(world: World) -> None:
    submit(world, worker=Behaviour(run_seconds=5, exit_code=137))
    runs: set[tuple[str, str]] = set()
    for _ in range(40):
        world.settle()
        runs |= {(each.replica.task_name, str(each.attempt)) for each in world.engine.observe().replicas}
        world.engine.advance(5)

    assert world.state() is JobState.FAILED
    assert (world.get().error_message or "").startswith(
        "The replica worker 0 exited with a non-zero status of 137."
    )
    workers = sorted(attempt for name, attempt in runs if name == "worker-replica-0")
    masters = sorted(attempt for name, attempt in runs if name == "master-replica-0")
    assert workers == [f"{retry}.{restart}" for retry in range(4) for restart in range(6)]
    assert masters == ["0.0", "1.0", "2.0", "3.0"]
    assert world.engine.observe() == EngineView()


@pytest.mark.parametrize("role", ["master", "worker", "ps"])
def test_an_image_that_is_missing_starts_nothing(world: World, role: str) -> None:
    submit(world, **{role: None})  # type: ignore[arg-type]  # one of the three behaviours
    world.settle()

    assert world.state() is JobState.FAILED
    assert f"of the replica {role} 0 could not be pulled" in (world.get().error_message or "")
    assert not any("is running" in message for message in world.messages())
    assert world.engine.observe() == EngineView()


def test_a_replica_that_cannot_start_fails_the_job_whole(world: World) -> None:
    submit(world, ps=Behaviour(start_error="exec format error"))
    world.settle()

    assert world.state() is JobState.FAILED
    assert world.get().error_message == "The replica ps 0 could not start: exec format error"
    assert world.engine.observe() == EngineView()


def test_a_cancel_comes_too_late_once_the_end_is_decided(world: World) -> None:
    submit(world, master=Behaviour(run_seconds=5))
    world.settle()
    world.engine.advance(5)
    world.step()
    assert world.store.get(PROJECT, "job").outcome is JobState.SUCCEEDED

    world.jobs.cancel(PROJECT, "job")
    world.settle()

    assert world.state() is JobState.SUCCEEDED


def test_replicas_that_ignore_sigterm_are_killed_after_one_grace_period(world: World) -> None:
    stubborn = Behaviour(run_seconds=10**6, ignores_sigterm=True)
    submit(world, worker=stubborn, ps=stubborn)
    world.settle()
    world.jobs.cancel(PROJECT, "job")
    world.settle()

    assert world.state() is JobState.CANCELLED
    assert world.engine.observe() == EngineView()


# --- room


def test_jobs_of_several_replicas_start_whole_and_in_their_order(world: World) -> None:
    for number in range(3):
        submit(world, job_id=f"job_{number}")
    world.settle()

    assert [world.state(f"job_{number}") for number in range(3)] == ["RUNNING", "RUNNING", "QUEUED"]
    assert world.get("job_2").job_position == 1
    assert len(world.engine.launches()) == 8


def test_a_small_job_does_not_overtake_a_large_one(world: World) -> None:
    submit(world, job_id="first")
    world.settle()
    submit(world, job_id="large", worker_count=4)
    world.add_image(Behaviour())
    world.submit("small")
    world.settle()

    assert [world.state(name) for name in ("first", "large", "small")] == ["RUNNING", "QUEUED", "QUEUED"]


def test_a_job_that_is_larger_than_the_machine_runs_alone(world: World) -> None:
    submit(world, job_id="huge", worker_count=20)
    world.settle()

    assert world.state("huge") is JobState.RUNNING
    assert any(
        "this machine gives each of worker-replica-0 to worker-replica-19" in m
        for m in world.messages("huge")
    )


@pytest.mark.extended
@settings(max_examples=25, deadline=None)
@given(
    workers=st.lists(st.integers(0, 9), min_size=1, max_size=12),
    seconds=st.lists(st.integers(1, 50), min_size=12, max_size=12),
)
def test_replicas_side_by_side_stay_within_the_room_and_every_job_ends(
    workers: list[int], seconds: list[int]
) -> None:
    world = World(open_database("sqlite://"), max_replicas=6)
    for number, count in enumerate(workers):
        image = f"registry.test/project/image:{number}"
        world.add_image(Behaviour(run_seconds=seconds[number]), image)
        world.submit(
            f"job_{number}",
            image,
            scale_tier="CUSTOM",
            master_type="n1-standard-4",
            worker_type="n1-standard-4",
            worker_count=count,
        )
    for _ in range(60 * len(workers)):
        world.settle(60)
        alive = [each for each in world.engine.observe().replicas if each.state is ReplicaState.RUNNING]
        by_job = {each.job_uid for each in alive}
        assert len(alive) <= 6 or len(by_job) == 1
        if not world.store.list_active():
            break
        world.engine.advance(5)

    ends = {world.state(f"job_{number}") for number in range(len(workers))}
    assert ends == {JobState.SUCCEEDED}
    world.database.dispose()


# --- accelerators


def gpu_job(world: World, check: HostCapacity) -> None:
    outputs = TuningOutputs(world.trials, world.measurements)
    jobs = Jobs(
        ML_V1,
        world.store,
        lambda: None,
        lambda spec: check.check_quota(spec, ML_V1),
        outputs,
        world.engine.clock,
    )
    world.jobs = WireJobs(jobs, {})
    world.submit(
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=ReplicaConfig.model_validate(
            {
                "imageUri": "registry.test/project/trainer:1",
                "acceleratorConfig": {"count": 1, "type": "NVIDIA_TESLA_K80"},
            }
        ),
    )


def test_accelerators_that_are_not_there_are_a_quota_failure(world: World) -> None:
    with pytest.raises(
        QuotaExceeded, match="The request for 1 K80 accelerators exceeds the allowed maximum of 0"
    ):
        gpu_job(world, HostCapacity(world.engine))


def test_accelerators_may_be_ignored_and_the_log_says_so(world: World) -> None:
    world.add_image()

    gpu_job(world, HostCapacity(world.engine, accelerators=Accelerators.IGNORE))
    world.settle()

    assert world.state() is JobState.RUNNING
    expected = (
        "master-replica-0 asked for 1 NVIDIA_TESLA_K80; this service ignores accelerators, it runs on CPUs."
    )
    assert expected in world.messages()


def test_gpus_that_are_there_are_not_promised_twice() -> None:
    engine = MemoryEngine(Resources(cpus=16, memory_bytes=64 * GIB, gpus=2))
    world = World(open_database("sqlite://"), engine=engine, max_replicas=0)
    world.add_image(LONG)
    host = HostCapacity(engine)
    gpu_job(world, host)
    host.check_quota(world.store.get(PROJECT, "job").spec, ML_V1)
    world.settle()

    (launch,) = engine.launches()
    assert launch.resources.gpus == 1
