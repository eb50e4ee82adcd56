"""
Who is who in a job's cluster: host names, ``CLUSTER_SPEC`` and ``TF_CONFIG``.

Both variables are set in every replica of every job, a single master included [code: public trainers]. The
shape is that of the guide's CLUSTER_SPEC table (keys cluster, task, job, environment); as a whole it is
composed from the guide and from public trainers' logs, so [unverified]. Deviation: ``task.cloud`` is left
out, as nothing reads it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

#: Port on which replicas listen to each other [code: public trainers' logs].
CLUSTER_PORT = 2222


class ReplicaRole(StrEnum):
    """Role of a replica; the value is the word on the wire."""

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
    digest = hashlib.sha256(job_id.encode()).hexdigest()[:10]
    return f"cmle-training-{replica.role}-{digest}-{replica.index}"


def build_cluster(job_id: str, replicas: Sequence[ReplicaId], *, use_chief: bool) -> dict[str, list[str]]:
    """
    Return the ``cluster`` mapping: role -> ``host:port``, list position is the replica index.

    Pure. Evaluators stand outside the cluster. ``use_chief`` names the master's key ``chief`` in TF_CONFIG.
    """
    cluster: dict[str, list[str]] = {}
    for replica in sorted(replicas, key=lambda r: (list(ReplicaRole).index(r.role), r.index)):
        if replica.role is ReplicaRole.EVALUATOR:
            continue
        key = _role_key(replica.role, use_chief=use_chief)
        cluster.setdefault(key, []).append(f"{replica_host(job_id, replica)}:{CLUSTER_PORT}")
    return cluster


def cluster_environment(
    *,
    job_id: str,
    replica: ReplicaId,
    replicas: Sequence[ReplicaId],
    job_parameters: Mapping[str, Any],
    use_chief: bool = False,
    trial_id: str = "",
) -> dict[str, str]:
    """
    Return ``CLUSTER_SPEC`` and ``TF_CONFIG`` for ``replica``.

    Pure: same arguments, same bytes.

    :param replicas: all replicas of the job, ``replica`` included.
    :param job_parameters: the job's trainingInput as sent; becomes the ``job`` key.
    :param use_chief: the request's ``useChiefInTfConfig``; only TF_CONFIG says ``chief``.
    :param trial_id: ``1`` and up in a tuning job, else empty.
    """
    return {
        "CLUSTER_SPEC": _spec(job_id, replica, replicas, job_parameters, use_chief=False, trial_id=trial_id),
        "TF_CONFIG": _spec(job_id, replica, replicas, job_parameters, use_chief=use_chief, trial_id=trial_id),
    }


def _spec(
    job_id: str,
    replica: ReplicaId,
    replicas: Sequence[ReplicaId],
    job_parameters: Mapping[str, Any],
    *,
    use_chief: bool,
    trial_id: str,
) -> str:
    spec = {
        "cluster": build_cluster(job_id, replicas, use_chief=use_chief),
        "task": {
            "type": _role_key(replica.role, use_chief=use_chief),
            "index": replica.index,
            "trial": trial_id,
        },
        "job": dict(job_parameters),
        "environment": "cloud",
    }
    return json.dumps(spec, sort_keys=True, separators=(",", ":"))


def _role_key(role: ReplicaRole, *, use_chief: bool) -> str:
    return "chief" if use_chief and role is ReplicaRole.MASTER else role.value
