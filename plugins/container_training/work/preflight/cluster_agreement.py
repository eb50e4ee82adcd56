"""Whether the replicas of a job agree on their cluster. Without I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from training_api.job.cluster import CLUSTER_PORT, ReplicaId, ReplicaRole

VARIABLES = ("CLUSTER_SPEC", "TF_CONFIG")


def cluster_disagreements(
    environments: Mapping[ReplicaId, Mapping[str, str]], hosts: Mapping[ReplicaId, str]
) -> list[str]:
    """
    Return what is wrong with the replicas' CLUSTER_SPEC and TF_CONFIG; empty: they agree.

    Pure.

    :param environments: the actual environment of each container.
    :param hosts: the actual host name of each container.
    """
    problems: list[str] = []
    for variable in VARIABLES:
        specs: dict[ReplicaId, Mapping[str, Any]] = {}
        for replica, environment in environments.items():
            problem, spec = _parsed(variable, environment)
            if spec is None:
                problems.append(f"{variable} of {replica.task_name} {problem}")
                continue
            specs[replica] = spec
            problems += _own_place(variable, replica, hosts[replica], spec)
        clusters = {json.dumps(spec["cluster"], sort_keys=True) for spec in specs.values()}
        if len(clusters) > 1:
            problems.append(f"{variable}: the replicas have {len(clusters)} different clusters")
    return problems


def _parsed(variable: str, environment: Mapping[str, str]) -> tuple[str, Mapping[str, Any] | None]:
    if variable not in environment:
        return "is not set", None
    try:
        spec = json.loads(environment[variable])
    except ValueError as error:
        return f"is not JSON: {error}", None
    if not isinstance(spec, Mapping) or not all(
        isinstance(spec.get(key), Mapping) for key in ("cluster", "task")
    ):
        return "has no 'cluster' and 'task' that are objects", None
    return "", spec


def _own_place(variable: str, replica: ReplicaId, host: str, spec: Mapping[str, Any]) -> list[str]:
    """Check that the replica's ``task`` points to itself; evaluators are outside the cluster."""
    if replica.role is ReplicaRole.EVALUATOR:
        return []
    task, address = spec["task"], f"{host}:{CLUSTER_PORT}"
    addresses = spec["cluster"].get(task.get("type"), [])
    if task.get("index") == replica.index and addresses[replica.index : replica.index + 1] == [address]:
        return []
    return [
        f"{variable} of {replica.task_name}: its task {task.get('type')} {task.get('index')} is not {address} in the cluster"
    ]
