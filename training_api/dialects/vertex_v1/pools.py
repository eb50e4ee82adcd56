"""
The worker pools of a job, and the replicas that they stand for. Pure.

Pool 0 is the chief, 1 the workers, 2 the parameter servers, 3 the evaluators [docs: distributed-training].
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from training_api.dialects.vertex_v1.pool_machines import read_machine
from training_api.dialects.vertex_v1.variables import MAX_EXPANDED, expanded_length
from training_api.errors import InvalidImageRef
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import ImageRef, parse_image_ref
from training_api.job.replica_spec import MAX_REPLICAS, ReplicaSpec
from training_api.job.violations import Violations

#: The role of each pool, by its place.
ROLES = (ReplicaRole.MASTER, ReplicaRole.WORKER, ReplicaRole.PARAMETER_SERVER, ReplicaRole.EVALUATOR)
_POOLS = "jobSpec.workerPoolSpecs"
_MAX_VARIABLES = 100
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DISK_TYPES = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
_TASKS = ("containerSpec", "pythonPackageSpec")
#: Fields of a pool that are refused by name -> why, and the way out.
NOT_HERE: Mapping[str, str] = {
    "nfsMounts": "this service mounts no file systems; leave it out, and read from Cloud Storage",
    "lustreMounts": "this service mounts no file systems; leave it out, and read from Cloud Storage",
    "pythonPackageSpec": (
        "this service does not install Python packages into an executor's image yet; build an image with them, "
        "and name it in containerSpec"
    ),
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
    _check_disk(rules, f"{path}.diskSpec", pool.get("diskSpec", {}))
    machine = read_machine(rules, f"{path}.machineSpec", pool.get("machineSpec", {}))
    container = pool.get("containerSpec")
    if container is None:
        if "pythonPackageSpec" not in pool:
            rules.add(f"{path}.containerSpec", "is required: the image that the pool's replicas run")
        return []
    image = _image(rules, f"{path}.containerSpec.imageUri", container.get("imageUri", ""))
    check_variables(rules, f"{path}.containerSpec.env", container.get("env", []))
    _check_length(rules, f"{path}.containerSpec", container)
    if machine is None or image is None:
        return []
    return [
        ReplicaSpec(
            replica=ReplicaId(role=role, index=index),
            image=image,
            machine=machine.type,
            command=tuple(container.get("command", ())),
            args=tuple(container.get("args", ())),
            gpus=machine.gpus,
            gpu=machine.gpu,
        )
        for index in range(count)
    ]


def _image(rules: Violations, path: str, text: str) -> ImageRef | None:
    if not text:
        rules.add(path, "is required: the image that the pool's replicas run")
        return None
    try:
        return parse_image_ref(text)
    except InvalidImageRef as error:
        rules.add(path, str(error))
        return None


def check_variables(rules: Violations, path: str, variables: Sequence[Mapping[str, Any]]) -> None:
    """Check the variables of a container. discovery: EnvVar.name "Must be a valid C identifier"."""
    if len(variables) > _MAX_VARIABLES:
        rules.add(path, f"must be at most {_MAX_VARIABLES}, got {len(variables)}")
    for place, variable in enumerate(variables):
        name = variable.get("name", "")
        if not _VARIABLE.fullmatch(name):
            rules.add(f"{path}[{place}].name", f"must be a C identifier like MY_VARIABLE; got {name[:100]!r}")


def _check_length(rules: Violations, path: str, container: Mapping[str, Any]) -> None:
    words = (*container.get("command", ()), *container.get("args", ()))
    if expanded_length(container.get("env", []), words) > MAX_EXPANDED:
        rules.add(
            path,
            f"env, command and args may have at most {MAX_EXPANDED:,} characters together once $(NAME) is expanded; "
            "have the trainer read long values from Cloud Storage",
        )


def _check_disk(rules: Violations, path: str, disk: Mapping[str, Any]) -> None:
    kind, size = disk.get("bootDiskType", ""), disk.get("bootDiskSizeGb", 0)
    if kind and kind not in _DISK_TYPES:
        rules.add(f"{path}.bootDiskType", f"must be one of {', '.join(_DISK_TYPES)}; got {kind[:100]!r}")
    if size < 0:
        rules.add(f"{path}.bootDiskSizeGb", f"must not be negative; got {size}")
