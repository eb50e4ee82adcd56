"""Why a job fails whose replicas have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from container_engines.base import ObservedReplica
from training_api.causes import Cause
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.states import ReplicaState
from training_service.model.verdict import failure_of

MASTER = ReplicaId(role=ReplicaRole.MASTER)


def worker(index: int) -> ReplicaId:
    return ReplicaId(role=ReplicaRole.WORKER, index=index)


def ended(replica: ReplicaId, exit_code: int, *, out_of_memory: bool = False) -> ObservedReplica:
    return ObservedReplica(
        job_uid="uid",
        replica=replica,
        container_id=replica.task_name,
        state=ReplicaState.EXITED,
        exit_code=exit_code,
        out_of_memory=out_of_memory,
    )


@pytest.mark.parametrize(
    ("failed", "cause", "replica", "exit_code"),
    [
        ([ended(MASTER, 1)], Cause.PROGRAM_ERROR, "master 0", 1),
        ([ended(MASTER, 143), ended(worker(1), 3)], Cause.PROGRAM_ERROR, "worker 1", 3),
        ([ended(MASTER, 127), ended(worker(1), 3)], Cause.PROGRAM_ERROR, "worker 1", 3),
        ([ended(MASTER, 127), ended(worker(1), 143)], Cause.COMMAND, "master 0", 127),
        ([ended(MASTER, 1), ended(worker(2), 137, out_of_memory=True)], Cause.OUT_OF_MEMORY, "worker 2", 137),
        ([ended(worker(3), 143), ended(worker(4), 137)], Cause.INTERRUPTED, "worker 3", 143),
    ],
)
def test_what_would_come_again_is_to_blame_first(
    failed: list[ObservedReplica], cause: Cause, replica: str, exit_code: int
) -> None:
    reason = failure_of(failed, [], ML_V1)

    assert (reason.cause, reason.replica, reason.exit_code) == (cause, replica, exit_code)


def test_a_lost_replica_is_to_blame_where_none_has_failed() -> None:
    reason = failure_of([], [worker(2)], ML_V1)

    assert (reason.cause, reason.replica, reason.exit_code) == (Cause.REPLICA_LOST, "worker 2", None)
    assert failure_of([ended(MASTER, 137)], [worker(2)], ML_V1).cause is Cause.INTERRUPTED


def test_what_died_with_the_engine_is_lost_and_its_status_says_nothing() -> None:
    lost = replace(ended(MASTER, 255), lost=True)

    reason = failure_of([lost], [], ML_V1)

    assert (reason.cause, reason.replica, reason.exit_code) == (Cause.REPLICA_LOST, "master 0", None)
    assert reason.message == "The replica master 0 was lost: the engine or its machine stopped while it ran."
    assert failure_of([ended(MASTER, 255)], [], ML_V1).cause is Cause.PROGRAM_ERROR
    assert failure_of([lost, ended(worker(1), 3)], [], ML_V1).cause is Cause.PROGRAM_ERROR


def test_a_package_that_cannot_be_installed_is_told_from_a_status_of_the_program() -> None:
    assert failure_of([ended(MASTER, 66)], [], ML_V1, uses_packages=True).cause is Cause.PACKAGE
    assert failure_of([ended(MASTER, 66)], [], ML_V1).cause is Cause.PROGRAM_ERROR
