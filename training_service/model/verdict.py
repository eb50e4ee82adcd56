"""How a running job continues when replicas have ended: unchanged, restarted, or over. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from container_engines.base import ObservedReplica
from training_api.causes import Cause
from training_api.job.cluster import ReplicaId
from training_api.job.dialect import Dialect, ReplicaFailure
from training_api.job.exit_causes import exit_cause
from training_api.job.restarts import (
    MAX_JOB_RETRIES,
    MAX_REPLICA_RESTARTS,
    Attempts,
    RestartScope,
    widest,
)
from training_api.states import JobState, ReplicaState
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord

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
    job: JobRecord,
    current: Mapping[ReplicaId, ObservedReplica],
    drained: Collection[str],
    dialect: Dialect,
) -> Over | Again | None:
    """
    Return what the replicas' ends mean for the job; ``None``: nothing (yet).

    The master decides, and its success outweighs everything else. A replica counts as ended when its last
    line is stored.

    :param current: the newest run of each replica, if present.
    :param drained: ids of containers whose log is stored to its last line.
    :param dialect: the job's.
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
    reason = failure_of(failed, lost, dialect, uses_packages=bool(job.spec.package_uris))
    scope = widest([job.spec.restarts, *map(dialect.restart_scope, _failures(failed, lost))])
    if scope is RestartScope.NONE:
        return Over(outcome=JobState.FAILED, reason=reason)
    return _again(job, [*(each.replica for each in failed), *lost], reason, scope, dialect)


def _again(
    job: JobRecord, ended: Sequence[ReplicaId], reason: Reason, scope: RestartScope, dialect: Dialect
) -> Over | Again:
    attempts = job.attempts
    if scope is RestartScope.REPLICA and all(attempts.may_restart(replica) for replica in ended):
        after = attempts.restarted(ended)
        counts = ", ".join(
            f"{dialect.task_name(replica)} restart {after.of(replica).restart} of {MAX_REPLICA_RESTARTS}"
            for replica in ended
        )
        return Again(attempts=after, why=f"{reason.message} Starting again: {counts}.")
    if attempts.may_retry:
        after = attempts.retried([spec.replica for spec in job.spec.replicas])
        why = f"{reason.message} Starting the whole job again: retry {after.retries} of {MAX_JOB_RETRIES}."
        return Again(attempts=after, why=why)
    return Over(outcome=JobState.FAILED, reason=reason)


def failure_of(
    failed: Sequence[ObservedReplica],
    lost: Sequence[ReplicaId],
    dialect: Dialect,
    *,
    uses_packages: bool = False,
) -> Reason:
    """
    Return why a job fails whose replicas failed or are gone; there is at least one.

    :param dialect: whose words the message is in.
    :param uses_packages: whether the job installs Python packages.
    """
    message = " ".join(map(dialect.failure_text, _failures(failed, lost)))
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


def _failures(failed: Sequence[ObservedReplica], lost: Sequence[ReplicaId]) -> list[ReplicaFailure]:
    return [*map(_failure, failed), *(ReplicaFailure(replica=who, is_removed=True) for who in lost)]


def _failure(observed: ObservedReplica) -> ReplicaFailure:
    return ReplicaFailure(
        replica=observed.replica,
        exit_code=observed.exit_code,
        out_of_memory=observed.out_of_memory,
        is_lost=observed.lost,
    )
