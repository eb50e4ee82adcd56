"""The cluster of ``TF_CONFIG``, and the wait until its servers are there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from replica import PATIENCE_SECONDS, ClusterError, wait_for_port

#: What a ParameterServerStrategy cannot do without.
ROLES = ("chief", "worker", "ps")


def task_of(environment: Mapping[str, str]) -> tuple[str, int]:
    """
    Return the role (``chief``, ``worker``, ``ps``) and index of this replica. Pure.

    Alone, it is the chief.

    :raises ClusterError: not the variable's form.
    """
    task = _part(environment, "task")
    return str(task.get("type", "chief")), int(task.get("index", 0))


def cluster_of(environment: Mapping[str, str], roles: Sequence[str] = ROLES) -> dict[str, list[str]] | None:
    """
    Return the addresses ``HOST:PORT`` by role, or ``None`` for a replica that is alone. Pure.

    :param roles: that must be there.
    :raises ClusterError: not the variable's form, or a role is missing.
    """
    cluster = _part(environment, "cluster")
    if sum(map(len, cluster.values())) <= 1:
        return None
    if missing := [role for role in roles if not cluster.get(role)]:
        raise ClusterError(
            f"TF_CONFIG has the roles {', '.join(sorted(cluster))}, but no {' and no '.join(missing)}; "
            f"the job needs {', '.join(roles)}, on AI Platform Training with useChiefInTfConfig"
        )
    return cluster


def wait_for_servers(cluster: Mapping[str, list[str]], *, timeout_seconds: float = PATIENCE_SECONDS) -> None:
    """Return once every server listens. Raises ``ClusterError``: one does not within the time."""
    for role in ("ps", "worker"):
        for address in cluster[role]:
            wait_for_port(address, timeout_seconds=timeout_seconds)
            print(f"{role} {address} is there")


def _part(environment: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        config = json.loads(environment.get("TF_CONFIG") or "{}")
        return dict(config.get(name) or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise ClusterError(f"TF_CONFIG must be a JSON object with the object {name!r}: {error}") from error
