"""The exit-code table and the count of restarts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.restarts import (
    MAX_JOB_RETRIES,
    MAX_REPLICA_RESTARTS,
    Attempt,
    Attempts,
    RestartScope,
    is_retryable,
    widest,
)

MASTER = ReplicaId(role=ReplicaRole.MASTER)
WORKER = ReplicaId(role=ReplicaRole.WORKER, index=1)


@pytest.mark.parametrize("exit_code", [130, 137, 138, 143])
def test_what_a_signal_of_the_machine_ended_may_do_better(exit_code: int) -> None:
    assert is_retryable(exit_code, out_of_memory=False)
    assert not is_retryable(exit_code, out_of_memory=True)


@pytest.mark.parametrize("exit_code", [1, 2, 3, 126, 127, 128, 134, 139, 255])
def test_every_other_status_is_permanent(exit_code: int) -> None:
    assert not is_retryable(exit_code, out_of_memory=False)


@given(st.builds(Attempt, st.integers(0, 9), st.integers(0, 9)))
def test_an_attempt_reads_back_what_it_writes(attempt: Attempt) -> None:
    assert Attempt.parse(str(attempt)) == attempt


def test_of_several_scopes_the_widest_counts() -> None:
    replica, job, none = RestartScope.REPLICA, RestartScope.JOB, RestartScope.NONE

    assert widest([replica]) is replica
    assert widest([replica, job, replica]) is job
    assert widest([job, none, replica]) is none


def test_a_replica_has_five_restarts_and_the_job_three_retries() -> None:
    attempts = Attempts()
    for retry in range(MAX_JOB_RETRIES + 1):
        for restart in range(MAX_REPLICA_RESTARTS):
            assert attempts.may_restart(WORKER)
            attempts = attempts.restarted([WORKER])
            assert attempts.of(WORKER) == Attempt(retry, restart + 1)
            assert attempts.of(MASTER) == Attempt(retry, 0)
        assert not attempts.may_restart(WORKER)
        assert attempts.may_restart(MASTER)
        assert attempts.may_retry is (retry < MAX_JOB_RETRIES)
        attempts = attempts.retried([MASTER, WORKER])


def test_what_was_decided_is_pending_until_it_is_started() -> None:
    attempts = Attempts().retried([MASTER, WORKER])

    assert attempts.pending == {"master-replica-0", "worker-replica-1"}
    assert attempts.started([MASTER]).pending == {"worker-replica-1"}
    assert attempts.started([MASTER, WORKER]).pending == frozenset()


def test_attempts_survive_the_database() -> None:
    attempts = Attempts().retried([MASTER, WORKER]).restarted([WORKER]).started([MASTER])

    assert Attempts.from_json(json.loads(json.dumps(attempts.to_json()))) == attempts
    assert Attempts.from_json({}) == Attempts()
