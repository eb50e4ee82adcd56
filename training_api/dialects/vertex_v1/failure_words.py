"""What is said of a replica that failed and of a quota, and which failures pass. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from training_api.dialects.vertex_v1.pools import pool_name
from training_api.dialects.vertex_v1.quotas import gpu_metric
from training_api.job.accelerators import Accelerator
from training_api.job.cluster import ReplicaId
from training_api.job.dialect import ReplicaFailure
from training_api.job.restarts import RestartScope

#: Statuses after which the job is restarted, at most three times [docs:
#: training/understanding-training-service, read 2026-11]. Every other is permanent.
TRANSIENT_EXIT_CODES: Mapping[int, str] = {134: "SIGABRT", 139: "SIGSEGV"}


def replica_name(replica: ReplicaId) -> str:
    """Return what the API calls a replica: ``workerpool0-0``."""
    return f"{pool_name(replica.role)}-{replica.index}"


def failure_text(failure: ReplicaFailure) -> str:
    """
    Return the sentence about one replica.

    Forms of an exit and of memory: captured by users (contract D); lost: ours.
    """
    name = f"The replica {replica_name(failure.replica)}"
    if failure.is_removed:
        return f"{name} was lost: its container was removed from the engine."
    if failure.is_lost:
        return f"{name} was lost: the engine or its machine stopped while it ran."
    if failure.out_of_memory:
        pool = pool_name(failure.replica.role)
        return f"Replicas low on memory: {pool}. Specify a machine with larger memory and try again."
    return f"{name} exited with a non-zero status of {failure.exit_code}. Termination reason: Error."


def restart_scope(failure: ReplicaFailure) -> RestartScope:
    """Return what is started again: after a loss the replica, after a transient status the job."""
    if failure.is_lost or failure.is_removed:
        return RestartScope.REPLICA
    if failure.exit_code in TRANSIENT_EXIT_CODES and not failure.out_of_memory:
        return RestartScope.JOB
    return RestartScope.NONE


def quota_text(project: str, wanted: Mapping[Accelerator, int], there: int) -> str:
    """
    Return the sentence about accelerators that are not there.

    Form: captured by users (contract D). Names: ``quotas.py``.
    """
    del project, there
    return f"The following quota metrics exceed quota limits: {','.join(map(gpu_metric, wanted))}"
