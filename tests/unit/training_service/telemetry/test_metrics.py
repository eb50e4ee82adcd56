"""The service's metrics: bounded labels, and what is counted when."""

from __future__ import annotations

from container_engines.memory.engine import Behaviour
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.restarts import Attempts
from training_api.states import JobState
from training_service.telemetry.metrics import OTHER, BoundedNames, Metrics, known_machine_type

MASTER = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def run(world: World, behaviour: Behaviour) -> None:
    world.add_image(behaviour)
    training = TrainingInput(master_config=ReplicaConfig(image_uri=IMAGE))
    world.jobs.create(PROJECT, Job(job_id="job", labels={"airflow-dag": "nightly"}, training_input=training))
    while not (state := world.state()) or not state.is_terminal:
        world.settle()
        world.engine.advance(1)


def test_a_job_counts_its_states_and_the_time_of_its_machine(world: World) -> None:
    run(world, Behaviour(run_seconds=4))

    assert value(world.metrics, "training_job_transitions_total", kind="job", state="SUCCEEDED") == 1
    running = {"kind": "job", "state": "RUNNING", "machine_type": "n1-standard-4"}
    assert value(world.metrics, "training_job_state_seconds_sum", **running) == 4
    seconds = {"machine_type": "n1-standard-4", "dag": "nightly"}
    assert value(world.metrics, "training_machine_seconds_total", **seconds) == 4


def test_a_failure_has_its_cause(world: World) -> None:
    run(world, Behaviour(exit_code=3))

    assert world.state() is JobState.FAILED
    assert value(world.metrics, "training_job_failures_total", kind="job", cause="PROGRAM_ERROR") == 1


def test_restarts_are_counted_by_role_and_retries_of_the_job_apart() -> None:
    metrics = Metrics()
    first = Attempts()
    restarted = first.restarted([MASTER, WORKER])
    metrics.count_attempts(first, restarted)
    metrics.count_attempts(restarted, restarted.started([MASTER, WORKER]))
    metrics.count_attempts(restarted, restarted.retried([MASTER, WORKER]))

    assert value(metrics, "training_replica_restarts_total", role="master") == 1
    assert value(metrics, "training_replica_restarts_total", role="worker") == 1
    assert value(metrics, "training_job_retries_total") == 1


def test_names_of_users_are_bounded() -> None:
    names = BoundedNames(2)

    assert [names.name(name) for name in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]
    assert known_machine_type("n1-standard-4") == "n1-standard-4"
    assert known_machine_type("my-own") == OTHER
