"""The end of a failed replica's standard error, in the error of its job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.cloud_logging import Severity
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_service.access.secret_store import SecretStore
from training_service.api.vertex_v1.error_tail import MAX_CHARACTERS, MAX_LINES, ErrorTail
from training_service.api.vertex_v1.writer import custom_job
from training_service.model.records import JobRecord, Trial
from training_service.store.database import open_database
from training_service.store.logs.log_store import NewLogEntry

WORKER = ReplicaId(role=ReplicaRole.WORKER)


def write(
    world: World, task: str, *lines: str, severity: Severity = Severity.ERROR, trial_id: str = ""
) -> None:
    """Write lines as a replica of the job does."""
    world.logs.append(
        [
            NewLogEntry(
                project=PROJECT,
                job_id="123",
                task_name=task,
                trial_id=trial_id,
                insert_id=f"{task}-{severity}-{number:04}",
                timestamp=world.engine.clock(),
                severity=severity,
                text=line,
            )
            for number, line in enumerate(lines)
        ]
    )


def run(world: World, **job: Any) -> JobRecord:
    """Start a job of a chief and a worker, of which the worker ends with 1."""
    world.add_image(Behaviour(run_seconds=1000))
    request = make_custom_job(make_pool(imageUri=IMAGE), make_pool(imageUri=IMAGE)) | job
    world.store.insert(custom_job_spec(PROJECT, "us-central1", "123", request), request)
    world.settle()
    return world.store.get(PROJECT, "123")


def fail(world: World) -> JobRecord:
    world.engine.end(world.store.get(PROJECT, "123").uid, WORKER, 1)
    world.settle()
    return world.store.get(PROJECT, "123")


def test_the_error_has_the_last_lines_of_the_replica_that_is_to_blame(world: World) -> None:
    run(world)
    write(world, "workerpool0-0", "of the chief")
    write(world, "workerpool1-0", "epoch 1", severity=Severity.INFO)
    write(world, "workerpool1-0", "Traceback (most recent call last):", "ValueError: no data")
    failed = fail(world)

    message = custom_job(failed, ErrorTail(world.logs).of(failed))["error"]["message"]

    assert message.startswith(
        "The replica workerpool1-0 exited with a non-zero status of 1. Termination reason: Error. \n"
        "Traceback (most recent call last):\nValueError: no data\n\n"
        "To find out more about why your job exited please check the logs: "
    )


@pytest.mark.parametrize(
    "lines", [[f"line {number}" for number in range(5 * MAX_LINES)], ["x" * (5 * MAX_CHARACTERS), "the end"]]
)
def test_a_long_output_is_cut_to_its_end(world: World, lines: list[str]) -> None:
    run(world)
    write(world, "workerpool1-0", *lines)

    tail = ErrorTail(world.logs).of(fail(world))

    assert tail.startswith("[...]\n")
    assert tail.endswith(lines[-1])
    assert len(tail) <= MAX_CHARACTERS + 6
    assert len(tail.splitlines()) <= MAX_LINES + 1


def test_nothing_is_shown_of_a_job_that_has_secrets(tmp_path: Path) -> None:
    secrets = SecretStore(tmp_path / "secrets")
    secrets.put(PROJECT, "key", b"12345")
    world = World(open_database("sqlite://"), secrets=secrets)
    run(world, labels={"secret-key": "api_key"})
    write(world, "workerpool1-0", "api key is 12345")

    assert ErrorTail(world.logs).of(fail(world)) == ""


def test_nothing_is_read_while_a_job_runs(world: World) -> None:
    record = run(world)
    write(world, "workerpool1-0", "a warning")

    assert ErrorTail(world.logs).of(record) == ""


def test_a_trial_shows_its_own_lines_and_not_those_of_another(world: World) -> None:
    run(world)
    for number in ("1", "2"):
        write(world, "workerpool1-0", f"of trial {number}", trial_id=number)
    trial = Trial(study_uid="s", study_sequence=1, number=1, hyperparameters={})
    failed = replace(fail(world), trial=trial)

    assert ErrorTail(world.logs).of(failed) == "of trial 1"
