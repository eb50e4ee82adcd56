"""The pure function on its own: one look, and exactly these actions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from container_training.core.cluster import ReplicaId, ReplicaRole
from container_training.core.job_spec import job_spec_from_wire
from container_training.core.states import JobState, ReplicaState
from container_training.core.wire import Job, ReplicaConfig, TrainingInput
from training_service.engine.base import EngineView, ObservedReplica
from training_service.reconcile import (
    Action,
    PullImage,
    RemoveJob,
    StartReplica,
    StopReplica,
    Transition,
    failure_message,
    reconcile,
)
from training_service.records import JobRecord

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MASTER = ReplicaId(role=ReplicaRole.MASTER)


def make_record(state: JobState = JobState.QUEUED, **changes: Any) -> JobRecord:
    training = TrainingInput(master_config=ReplicaConfig(image_uri="registry.test/p/trainer:1"))
    record = JobRecord(
        uid="uid",
        sequence=1,
        spec=job_spec_from_wire("project", Job(job_id="job", training_input=training)),
        state=state,
        created_at=NOW - timedelta(seconds=60),
        image_id="" if state in (JobState.QUEUED, JobState.PREPARING) else "sha256:1",
    )
    return replace(record, **changes)


def make_replica(state: ReplicaState, exit_code: int | None = None, **changes: Any) -> ObservedReplica:
    replica = ObservedReplica(
        job_uid="uid",
        replica=MASTER,
        container_id="container",
        state=state,
        exit_code=exit_code,
        started_at=NOW - timedelta(seconds=30),
        finished_at=NOW - timedelta(seconds=10) if state is ReplicaState.EXITED else None,
    )
    return replace(replica, **changes)


def look(record: JobRecord, *replicas: ObservedReplica, **changes: Any) -> list[Action]:
    view = EngineView(replicas=replicas, job_uids=frozenset(replica.job_uid for replica in replicas))
    arguments: dict[str, Any] = {"drained": (), "busy": (), "now": NOW, "max_active_jobs": 4}
    return reconcile(jobs=[record], view=view, **(arguments | changes))


EXITED = make_replica(ReplicaState.EXITED, 0)
RUNNING = make_replica(ReplicaState.RUNNING)


def test_queued_job_is_admitted_while_there_is_room() -> None:
    record = make_record()

    assert look(record) == [Transition(job=record, to=JobState.PREPARING, at=NOW)]
    assert look(record, max_active_jobs=0) == []


def test_preparing_job_is_pulled_then_started_then_running() -> None:
    fresh = make_record(JobState.PREPARING)
    pulled = replace(fresh, image_id="sha256:1")

    assert look(fresh) == [PullImage(job=fresh, image=fresh.spec.master.image)]
    assert look(pulled) == [StartReplica(job=pulled, replica=pulled.spec.master)]
    assert look(pulled, make_replica(ReplicaState.CREATED)) == [
        StartReplica(job=pulled, replica=pulled.spec.master)
    ]
    assert look(pulled, RUNNING) == [
        Transition(job=pulled, to=JobState.RUNNING, at=NOW - timedelta(seconds=30))
    ]


def test_job_that_ended_before_anybody_looked_was_running_first() -> None:
    pulled = make_record(JobState.PREPARING, image_id="sha256:1")

    (action,) = look(pulled, EXITED)

    assert isinstance(action, Transition)
    assert action.to is JobState.RUNNING


def test_job_ends_only_when_its_last_line_is_stored() -> None:
    record = make_record(JobState.RUNNING)

    assert look(record, EXITED) == []
    assert look(record, EXITED, drained={"container"}) == [
        Transition(job=record, to=JobState.SUCCEEDED, at=NOW - timedelta(seconds=10))
    ]


def test_failed_master_fails_the_job_with_its_code() -> None:
    record = make_record(JobState.RUNNING)

    (action,) = look(record, make_replica(ReplicaState.EXITED, 3), drained={"container"})

    assert isinstance(action, Transition)
    assert (action.to, action.error_message) == (
        JobState.FAILED,
        "The replica master 0 exited with a non-zero status of 3.",
    )


def test_running_job_is_left_alone_while_it_runs() -> None:
    assert look(make_record(JobState.RUNNING), RUNNING) == []


def test_cancelling_job_is_stopped_drained_and_ended() -> None:
    record = make_record(JobState.CANCELLING, error_message="why")
    stopped = make_replica(ReplicaState.EXITED, 143)

    assert look(record, RUNNING) == [StopReplica(job=record, observed=RUNNING)]
    assert look(record, stopped) == []
    assert look(record, stopped, drained={"container"}) == [
        Transition(job=record, to=JobState.CANCELLED, at=NOW, error_message="why")
    ]
    assert look(record) == [Transition(job=record, to=JobState.CANCELLED, at=NOW, error_message="why")]


@pytest.mark.parametrize("state", [JobState.PREPARING, JobState.RUNNING, JobState.CANCELLING])
def test_busy_job_is_left_alone(state: JobState) -> None:
    assert look(make_record(state), RUNNING, busy={"uid"}) == []


def test_what_nobody_knows_is_removed_unless_it_is_busy() -> None:
    record = make_record(JobState.RUNNING)
    stray = make_replica(ReplicaState.RUNNING, job_uid="stray")

    assert look(record, RUNNING, stray) == [RemoveJob(job_uid="stray")]
    assert look(record, RUNNING, stray, busy={"stray"}) == []


def test_failures_of_several_replicas_are_joined() -> None:
    worker = ReplicaId(role=ReplicaRole.WORKER, index=2)

    text = failure_message(
        [
            make_replica(ReplicaState.EXITED, 1),
            make_replica(ReplicaState.EXITED, 137, replica=worker, out_of_memory=True),
        ]
    )

    assert text == (
        "The replica master 0 exited with a non-zero status of 1. "
        "The replica worker 2 ran out-of-memory and exited with a non-zero status of 9(SIGKILL)."
    )
