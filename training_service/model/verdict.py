"""How a running job continues when replicas have ended: unchanged, restarted, or over. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from container_engines.base import ObservedReplica
from training_api.causes import Cause
from training_api.job.cluster import ReplicaId
from training_api.job.exit_causes import exit_cause
from training_api.job.python_package import is_package_job
from training_api.job.restarts import MAX_JOB_RETRIES, MAX_REPLICA_RESTARTS, Attempts, is_retryable
from training_api.states import JobState, ReplicaState
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord

#: 128 + SIGKILL: the exit code of a process killed by signal 9, in a shell and in the engine.
_KILLED = 137
_SIGKILL = 9
#: If several replicas have ended, the job fails for the first of these: causes that would recur come first.
_BY_WEIGHT = (
    Cause.OUT_OF_MEMORY,
    Cause.PACKAGE,
    Cause.PROGRAM_ERROR,
    Cause.COMMAND,
    Cause.INTERRUPTED,
    Cause.REPLICA_LOST,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """The job has an outcome; ``reason`` explains a bad one."""

    outcome: JobState
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """Something is restarted: ``attempts`` is what to write, ``why`` what to log."""

    attempts: Attempts
    why: str


def judge(
    job: JobRecord, current: Mapping[ReplicaId, ObservedReplica], drained: Collection[str]
) -> Over | Again | None:
    """
    Return what the replicas' ends mean for the job; ``None``: nothing (yet).

    The master decides, and its success outweighs everything else. A replica counts as ended when its last
    line is stored.

    :param current: the newest run of each replica, if present.
    :param drained: ids of containers whose log is stored to its last line.
    """
    ended = [observed for observed in current.values() if observed.state is ReplicaState.EXITED]
    master = current.get(job.spec.master.replica)
    if master is not None and master in ended and master.exit_code == 0:
        return Over(outcome=JobState.SUCCEEDED) if master.container_id in drained else None
    failed = [observed for observed in ended if observed.exit_code]
    if any(observed.container_id not in drained for observed in failed):
        return None
    lost = [
        spec.replica
        for spec in job.spec.replicas
        if spec.replica not in current and spec.replica.task_name not in job.attempts.pending
    ]
    if not failed and not lost:
        return None
    reason = failure_of(failed, lost, uses_packages=is_package_job(job.spec.training_input))
    if not all(_may_run_again(each) for each in failed):
        return Over(outcome=JobState.FAILED, reason=reason)
    return _again(job, [*(each.replica for each in failed), *lost], reason)


def _may_run_again(failed: ObservedReplica) -> bool:
    return failed.lost or is_retryable(failed.exit_code or 0, out_of_memory=failed.out_of_memory)


def _again(job: JobRecord, ended: Sequence[ReplicaId], reason: Reason) -> Over | Again:
    attempts = job.attempts
    if all(attempts.may_restart(replica) for replica in ended):
        after = attempts.restarted(ended)
        counts = ", ".join(
            f"{replica.task_name} restart {after.of(replica).restart} of {MAX_REPLICA_RESTARTS}"
            for replica in ended
        )
        return Again(attempts=after, why=f"{reason.message} Starting again: {counts}.")
    if attempts.may_retry:
        after = attempts.retried([spec.replica for spec in job.spec.replicas])
        why = f"{reason.message} Starting the whole job again: retry {after.retries} of {MAX_JOB_RETRIES}."
        return Again(attempts=after, why=why)
    return Over(outcome=JobState.FAILED, reason=reason)


def failure_of(
    failed: Sequence[ObservedReplica], lost: Sequence[ReplicaId] = (), *, uses_packages: bool = False
) -> Reason:
    """
    Return why a job fails whose replicas failed or are gone; there is at least one.

    :param uses_packages: whether the job installs Python packages.
    """
    message = failure_message(failed, lost)
    if not failed:
        return Reason(cause=Cause.REPLICA_LOST, message=message, replica=str(lost[0]))
    causes = [_cause_of(each, uses_packages=uses_packages) for each in failed]
    cause = min(causes, key=_BY_WEIGHT.index)
    blamed = failed[causes.index(cause)]
    exit_code = None if blamed.lost else blamed.exit_code
    return Reason(cause=cause, message=message, replica=str(blamed.replica), exit_code=exit_code)


def _cause_of(failed: ObservedReplica, *, uses_packages: bool) -> Cause:
    if failed.lost:
        return Cause.REPLICA_LOST
    return exit_cause(failed.exit_code or 0, out_of_memory=failed.out_of_memory, uses_packages=uses_packages)


def failure_message(failed: Sequence[ObservedReplica], lost: Sequence[ReplicaId] = ()) -> str:
    """
    Return the ``errorMessage`` for replicas that failed or are gone.

    Pure. Forms: [issues: rstudio/cloudml#130, tensorflow/models#4294]; out of memory [issue:
    tensorflow/models#5591]; lost: ours.
    """
    gone = (f"The replica {replica} was lost: its container was removed from the engine." for replica in lost)
    return " ".join([*map(_failure_of, failed), *gone])


def _failure_of(observed: ObservedReplica) -> str:
    name = f"The replica {observed.replica}"
    code = observed.exit_code
    if observed.lost:
        return f"{name} was lost: the engine or its machine stopped while it ran."
    if observed.out_of_memory:
        status = f"{_SIGKILL}(SIGKILL)" if code == _KILLED else str(code)
        return f"{name} ran out-of-memory and exited with a non-zero status of {status}."
    return f"{name} exited with a non-zero status of {code}."
