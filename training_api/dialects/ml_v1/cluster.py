"""
What a replica is told of its job's cluster: ``CLUSTER_SPEC`` and ``TF_CONFIG``.

Both variables are set in every replica of every job, a single master included [code: public trainers]. The
shape is that of the guide's CLUSTER_SPEC table (keys cluster, task, job, environment); as a whole it is
composed from the guide and from public trainers' logs, so [unverified]. Deviation: ``task.cloud`` is left
out, as nothing reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from training_api.job.cluster import CLUSTER_PORT, ReplicaId, ReplicaRole, replica_host


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
