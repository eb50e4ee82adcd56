"""Who is who in a job's cluster: roles, replicas, and their host names. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

#: Port on which replicas listen to each other [code: public trainers' logs].
CLUSTER_PORT = 2222


class ReplicaRole(StrEnum):
    """Role of a replica; the value is the word in messages, and in the logs."""

    MASTER = "master"
    WORKER = "worker"
    PARAMETER_SERVER = "ps"
    EVALUATOR = "evaluator"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ReplicaId:
    """One replica of a job: its role and its 0-based place within that role."""

    role: ReplicaRole
    index: int = 0

    def __str__(self) -> str:
        """Return what messages call it: ``worker 1``."""
        return f"{self.role} {self.index}"

    @property
    def task_name(self) -> str:
        """
        The name under which its log lines are found.

        ``master-replica-0`` [issue: tensorflow#18984].
        """
        return f"{self.role}-replica-{self.index}"


def replica_host(job_id: str, replica: ReplicaId) -> str:
    """
    Return the host name of ``replica`` in its job's network.

    ``cmle-training-master-1a2b3c4d5e-0``.

    Pure; a valid DNS label (at most 63 characters) for every job id. The pattern is that of public trainers'
    logs.
    """
    return host_label(replica.role, job_id, replica.index)


def host_label(name: str, job_id: str, index: int) -> str:
    """Return the host name of the replica ``index`` of those that are called ``name``. Pure."""
    digest = hashlib.sha256(job_id.encode()).hexdigest()[:10]
    return f"cmle-training-{name}-{digest}-{index}"
