"""The pure function on its own: one look, and exactly these actions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from container_engines.base import EngineView, ObservedReplica
from training_api.causes import Cause
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, Scheduling, TrainingInput
from training_api.dialects.registry import DIALECTS
from training_api.job.capacity import Capacity
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.machines import GIB, Resources
from training_api.job.restarts import Attempt, Attempts
from training_api.states import JobState, ReplicaState
from training_service.loop.reconcile import reconcile
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.model.verdict import failure_of
from training_service.model.work import (
    Action,
    Conclude,
    PullImages,
    RecordAttempts,
    RemoveJob,
    StartReplicas,
    StopReplicas,
    Transition,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MASTER = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER)
IMAGE = "registry.test/p/trainer:1"
WHY = Reason(cause=Cause.CANCELLED, message="why")
PULLED = {IMAGE: "sha256:1"}
ROOM = Capacity(
    each=Resources(cpus=2, memory_bytes=8 * GIB), total=Resources(cpus=16, memory_bytes=64 * GIB), replicas=4
)


def make_record(state: JobState = JobState.QUEUED, **changes: Any) -> JobRecord:
    training = TrainingInput(master_config=ReplicaConfig(image_uri="registry.test/p/trainer:1"))
    record = JobRecord(
        uid="uid",
        sequence=1,
        spec=job_spec_from_wire("project", Job(job_id="job", training_input=training)),
        state=state,
        created_at=NOW - timedelta(seconds=60),
        images={} if state in (JobState.QUEUED, JobState.PREPARING) else PULLED,
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
    arguments: dict[str, Any] = {"drained": (), "busy": (), "now": NOW, "capacity": ROOM}
    return reconcile(jobs=[record], view=view, dialects=DIALECTS, **(arguments | changes))


EXITED = make_replica(ReplicaState.EXITED, 0)
RUNNING = make_replica(ReplicaState.RUNNING)


def test_queued_job_is_admitted_while_there_is_room() -> None:
    record = make_record()

    assert look(record) == [Transition(job=record, to=JobState.PREPARING, at=NOW)]


def test_preparing_job_is_pulled_then_started_then_running() -> None:
    fresh = make_record(JobState.PREPARING)
    pulled = replace(fresh, images=PULLED)

    assert look(fresh) == [PullImages(job=fresh, images=(fresh.spec.master.image,))]
    assert look(pulled) == [StartReplicas(job=pulled, replicas=(pulled.spec.master,))]
    assert look(pulled, make_replica(ReplicaState.CREATED)) == [
        StartReplicas(job=pulled, replicas=(pulled.spec.master,))
    ]
    assert look(pulled, RUNNING) == [
        Transition(job=pulled, to=JobState.RUNNING, at=NOW - timedelta(seconds=30))
    ]


def test_job_that_ended_before_anybody_looked_was_running_first() -> None:
    pulled = make_record(JobState.PREPARING, images=PULLED)

    (action,) = look(pulled, EXITED)

    assert isinstance(action, Transition)
    assert action.to is JobState.RUNNING


def test_job_ends_only_when_its_last_line_is_stored() -> None:
    record = make_record(JobState.RUNNING)
    decided = replace(record, outcome=JobState.SUCCEEDED)

    assert look(record, EXITED) == []
    assert look(record, EXITED, drained={"container"}) == [Conclude(job=record, outcome=JobState.SUCCEEDED)]
    assert look(decided, EXITED) == []
    assert look(decided, EXITED, drained={"container"}) == [
        Transition(job=decided, to=JobState.SUCCEEDED, at=NOW - timedelta(seconds=10))
    ]


def test_failed_master_fails_the_job_with_its_code() -> None:
    record = make_record(JobState.RUNNING)

    (action,) = look(record, make_replica(ReplicaState.EXITED, 3), drained={"container"})

    assert action == Conclude(
        job=record,
        outcome=JobState.FAILED,
        reason=Reason(
            cause=Cause.PROGRAM_ERROR,
            message="The replica master 0 exited with a non-zero status of 3.",
            replica="master 0",
            exit_code=3,
        ),
    )


def test_a_decided_job_stops_what_still_runs_and_then_ends() -> None:
    record = make_record(JobState.RUNNING, outcome=JobState.FAILED, reason=WHY)
    worker = make_replica(ReplicaState.RUNNING, replica=WORKER, container_id="worker")
    stopped = make_replica(ReplicaState.EXITED, 143, replica=WORKER, container_id="worker", finished_at=NOW)

    assert look(record, EXITED, worker) == [StopReplicas(job=record, observed=(worker,))]
    assert look(record, EXITED, stopped, drained={"container"}) == []
    assert look(record, EXITED, stopped, drained={"container", "worker"}) == [
        Transition(job=record, to=JobState.FAILED, at=NOW, reason=WHY)
    ]


def test_a_decided_job_is_not_cancelled_by_its_limit() -> None:
    long_ago = NOW - timedelta(days=30)
    record = make_record(JobState.RUNNING, running_at=long_ago, outcome=JobState.SUCCEEDED)

    assert look(record, RUNNING) == [StopReplicas(job=record, observed=(RUNNING,))]


def test_a_replica_that_is_to_be_started_again_is_started_once() -> None:
    attempts = Attempts().restarted([MASTER])
    record = make_record(JobState.RUNNING, attempts=attempts)
    killed = make_replica(ReplicaState.EXITED, 137)
    again = make_replica(ReplicaState.RUNNING, attempt=Attempt(0, 1), container_id="again")

    assert look(record, killed) == [StartReplicas(job=record, replicas=(record.spec.master,))]
    assert look(record, killed, again) == [RecordAttempts(job=record, attempts=attempts.started([MASTER]))]


def test_an_earlier_try_of_the_job_is_stopped_before_the_next_starts() -> None:
    record = make_record(JobState.RUNNING, attempts=Attempts().retried([MASTER]))

    assert look(record, RUNNING) == [StopReplicas(job=record, observed=(RUNNING,))]
    assert look(record, make_replica(ReplicaState.EXITED, 143)) == [
        StartReplicas(job=record, replicas=(record.spec.master,))
    ]


def test_an_image_that_left_the_engine_is_pulled_again_before_a_restart() -> None:
    record = make_record(JobState.RUNNING, attempts=Attempts().restarted([MASTER]), images={})

    assert look(record) == [PullImages(job=record, images=(record.spec.master.image,))]


def test_running_job_is_left_alone_while_it_runs() -> None:
    assert look(make_record(JobState.RUNNING), RUNNING) == []


def test_cancelling_job_is_stopped_drained_and_ended() -> None:
    record = make_record(JobState.CANCELLING, reason=WHY)
    stopped = make_replica(ReplicaState.EXITED, 143)

    assert look(record, RUNNING) == [StopReplicas(job=record, observed=(RUNNING,))]
    assert look(record, stopped) == []
    assert look(record, stopped, drained={"container"}) == [
        Transition(job=record, to=JobState.CANCELLED, at=NOW, reason=WHY)
    ]
    assert look(record) == [Transition(job=record, to=JobState.CANCELLED, at=NOW, reason=WHY)]


@pytest.mark.parametrize("state", [JobState.PREPARING, JobState.RUNNING, JobState.CANCELLING])
def test_busy_job_is_left_alone(state: JobState) -> None:
    assert look(make_record(state), RUNNING, busy={"uid"}) == []


def test_a_busy_job_that_has_waited_too_long_is_cancelled_all_the_same() -> None:
    training = TrainingInput(
        master_config=ReplicaConfig(image_uri=IMAGE), scheduling=Scheduling(max_wait_time="1800s")
    )
    spec = job_spec_from_wire("project", Job(job_id="job", training_input=training))
    record = make_record(JobState.PREPARING, spec=spec, created_at=NOW - timedelta(seconds=1800))

    (action,) = look(record, busy={"uid"})

    assert isinstance(action, Transition)
    assert action.to is JobState.CANCELLING


def test_what_nobody_knows_is_removed_unless_it_is_busy() -> None:
    record = make_record(JobState.RUNNING)
    stray = make_replica(ReplicaState.RUNNING, job_uid="stray")

    assert look(record, RUNNING, stray) == [RemoveJob(job_uid="stray")]
    assert look(record, RUNNING, stray, busy={"stray"}) == []


def test_failures_of_several_replicas_are_joined() -> None:
    worker = ReplicaId(role=ReplicaRole.WORKER, index=2)

    reason = failure_of(
        [
            make_replica(ReplicaState.EXITED, 1),
            make_replica(ReplicaState.EXITED, 137, replica=worker, out_of_memory=True),
        ],
        [],
        ML_V1,
    )

    assert reason == Reason(
        cause=Cause.OUT_OF_MEMORY,
        message="The replica master 0 exited with a non-zero status of 1. "
        "The replica worker 2 ran out-of-memory and exited with a non-zero status of 9(SIGKILL).",
        replica="worker 2",
        exit_code=137,
    )
