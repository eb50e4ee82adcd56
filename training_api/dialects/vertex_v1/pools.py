"""
The worker pools of a job, and the replicas that they stand for. Pure.

Pool 0 is the chief, 1 the workers, 2 the parameter servers, 3 the evaluators [docs: distributed-training].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from training_api.dialects.vertex_v1.pool_machines import read_machine
from training_api.dialects.vertex_v1.pool_tasks import read_task
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.replica_spec import MAX_REPLICAS, ReplicaSpec
from training_api.job.violations import Violations

#: The role of each pool, by its place.
ROLES = (ReplicaRole.MASTER, ReplicaRole.WORKER, ReplicaRole.PARAMETER_SERVER, ReplicaRole.EVALUATOR)
_POOLS = "jobSpec.workerPoolSpecs"
_DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
_TASKS = ("containerSpec", "pythonPackageSpec")
#: Fields of a pool that are refused by name -> why, and the way out.
NOT_HERE: Mapping[str, str] = {
    "nfsMounts": "this service mounts no file systems; leave it out, and read from Cloud Storage",
    "lustreMounts": "this service mounts no file systems; leave it out, and read from Cloud Storage",
}


def pool_name(role: ReplicaRole) -> str:
    """Return what the API calls the pool of a role: ``workerpool0``."""
    return f"workerpool{ROLES.index(role)}"


def replicas_from_pools(rules: Violations, pools: Sequence[Mapping[str, Any]]) -> tuple[ReplicaSpec, ...]:
    """
    Return the replicas of all pools in their order; the first one is the chief.

    What breaks a rule is recorded in ``rules``; a pool that cannot be read has no replicas.
    """
    if not pools or not pools[0]:
        rules.add(
            f"{_POOLS}[0]",
            "is required: the pool of the chief, with machineSpec, replicaCount and containerSpec",
        )
    if len(pools) > len(ROLES):
        rules.add(_POOLS, f"must be at most {len(ROLES)}: {_POOL_ORDER}; got {len(pools)}")
    replicas: list[ReplicaSpec] = []
    total = 0
    for place, (role, pool) in enumerate(zip(ROLES, pools, strict=False)):
        if not pool:
            continue  # "can be skipped by providing an empty value"
        count = int(pool.get("replicaCount", 0))
        total += max(count, 0)
        _check_count(rules, f"{_POOLS}[{place}].replicaCount", role, count)
        replicas += _replicas(rules, f"{_POOLS}[{place}]", role, pool, min(count, MAX_REPLICAS))
    if total > MAX_REPLICAS:
        rules.add(_POOLS, f"may have at most {MAX_REPLICAS} replicas here, all pools together; got {total}")
    return tuple(replicas)


_POOL_ORDER = "the chief, workers, parameter servers and evaluators"


def _check_count(rules: Violations, path: str, role: ReplicaRole, count: int) -> None:
    if role is ReplicaRole.MASTER and count != 1:
        rules.add(path, f"must be 1 in the first pool, which is the chief's; got {count}")
    elif count < 1:
        rules.add(path, f"must be at least 1, or the pool {{}}, which skips it; got {count}")


def _replicas(
    rules: Violations, path: str, role: ReplicaRole, pool: Mapping[str, Any], count: int
) -> list[ReplicaSpec]:
    for name, why in NOT_HERE.items():
        if name in pool:
            rules.add(f"{path}.{name}", why)
    check_disk(rules, f"{path}.diskSpec", pool.get("diskSpec", {}))
    machine = read_machine(rules, f"{path}.machineSpec", pool.get("machineSpec", {}))
    task = read_task(rules, path, pool)
    if machine is None or task is None:
        return []
    return [
        ReplicaSpec(
            replica=ReplicaId(role=role, index=index),
            image=task.image,
            machine=machine.type,
            command=task.command,
            args=task.args,
            installs=task.installs,
            gpus=machine.gpus,
            gpu=machine.gpu,
        )
        for index in range(count)
    ]


def check_disk(rules: Violations, path: str, disk: Mapping[str, Any]) -> None:
    """Check the boot disk of a pool's machines."""
    kind, size = disk.get("bootDiskType", ""), disk.get("bootDiskSizeGb", 0)
    if kind and kind not in _DISK_TYPES:
        rules.add(f"{path}.bootDiskType", f"must be one of {', '.join(_DISK_TYPES)}; got {kind[:100]!r}")
    if size < 0:
        rules.add(f"{path}.bootDiskSizeGb", f"must not be negative; got {size}")
