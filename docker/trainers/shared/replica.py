"""
This container's place among the replicas of its job, from ``CLUSTER_SPEC``.

Without it, it is the only replica.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

PORT = 2222
#: How long a peer may take to start.
PATIENCE_SECONDS = 120.0
_ALONE = {"cluster": {"master": [f"localhost:{PORT}"]}, "task": {"type": "master", "index": 0}}
#: Vertex AI's names of the roles -> AI Platform Training's.
_ROLES = {"workerpool0": "master", "workerpool1": "worker"}
_POLL_SECONDS = 0.2

T = TypeVar("T")


class ClusterError(Exception):
    """The cluster cannot be read, or a peer is not there; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Replica:
    """
    One process of those that train together: the master and the workers.

    :param rank: 0 is the master, 1 the first worker.
    :param world_size: how many there are.
    :param master_host: name of the master, where all meet.
    :param port: port that is free for them on every replica.
    """

    rank: int
    world_size: int
    master_host: str
    port: int

    @property
    def is_master(self) -> bool:
        """Whether this is the one that writes the results."""
        return self.rank == 0


def read_replica(environment: Mapping[str, str]) -> Replica:
    """
    Return the replica that ``CLUSTER_SPEC`` describes; without it, one that is alone. Pure.

    The variable may be that of AI Platform Training or of Vertex AI.

    :raises ClusterError: not the variable's form, or a role that does not train.
    """
    text = environment.get("CLUSTER_SPEC")
    try:
        spec = json.loads(text) if text else _ALONE
        task = spec["task"]
        cluster = {_ROLES.get(name, name): hosts for name, hosts in spec["cluster"].items()}
        masters, workers = cluster["master"], cluster.get("worker", [])
        host, _, port = masters[0].rpartition(":")
        first = {"master": 0, "worker": len(masters)}[_ROLES.get(task["type"], task["type"])]
        return Replica(
            rank=first + int(task["index"]),
            world_size=len(masters) + len(workers),
            master_host=host,
            port=int(port),
        )
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ClusterError(
            "CLUSTER_SPEC must name a master (workerpool0) and describe a master or worker (workerpool1): "
            f"{error!r}"
        ) from error


def wait_for_name(host: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> str:
    """
    Return the address of ``host`` once its name resolves.

    Replicas start in any order, and have no name until then.

    :raises ClusterError: not within the time.
    """
    return _retry(lambda: socket.gethostbyname(host), host, timeout_seconds)


def wait_for_port(address: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> None:
    """
    Return once something listens at ``address``, ``HOST:PORT``.

    :raises ClusterError: not within the time.
    """
    host, _, port = address.rpartition(":")
    _retry(lambda: socket.create_connection((host, int(port)), timeout=5).close(), address, timeout_seconds)


def _retry(attempt: Callable[[], T], peer: str, timeout_seconds: float) -> T:
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            return attempt()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ClusterError(f"{peer} is not there after {timeout_seconds:g} s: {error}") from error
            time.sleep(_POLL_SECONDS)
