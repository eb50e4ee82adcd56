"""
What a Swarm's services, tasks and nodes say about replicas. Pure.

A run of a replica is a service with one task that is never started again. Stopping it adds a second task that
no node may run (``spec.py``), so the first one is the run. States:
docs.docker.com/engine/swarm/how-swarm-mode-works/swarm-task-states; the use of the fields was seen with
Engine 20.10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from container_engines.labels import JOB_UID
from container_engines.swarm.gpus import gpus_offered
from training_api.job.machines import Resources
from training_api.states import ReplicaState

_BEFORE_NODE = frozenset({"new", "pending", "allocated"})
_BEFORE_START = frozenset({"assigned", "accepted", "preparing", "ready", "starting"})
#: The container is there, and may run.
_LIVES = frozenset({"starting", "running"})
_ENDED = frozenset({"complete", "shutdown", "failed"})
#: A task's message is that of its last successful step; these mean that the container has run.
_HAS_RUN = frozenset({"started", "finished", "shutdown"})


class TaskPhase(StrEnum):
    """How far a run has come."""

    WAITS = "waits"  #: no machine for it yet
    PREPARES = "prepares"  #: a machine has it: it pulls the image, or makes the container
    RUNS = "runs"
    ENDED = "ended"  #: its exit code is known
    REFUSED = "refused"  #: it could not be started
    LOST = "lost"  #: nobody knows, or ever will: its machine is down or gone, or its container was removed


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """
    A machine of the swarm.

    :param is_down: the manager has given it up; its tasks do not come back.
    :param is_open: new containers may start on it.
    """

    node_id: str
    name: str
    resources: Resources
    is_down: bool
    is_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """
    One run of a replica as the swarm reports it.

    :param why: the swarm's own words, if something is wrong.
    :param at: when it came into this phase.
    """

    task_id: str
    node_id: str
    node_name: str
    container_id: str
    phase: TaskPhase
    exit_code: int
    why: str
    created_at: datetime
    at: datetime


#: LOST is none of them: such a replica is not reported at all.
REPLICA_STATES: Mapping[TaskPhase, ReplicaState] = {
    TaskPhase.WAITS: ReplicaState.CREATED,
    TaskPhase.PREPARES: ReplicaState.CREATED,
    TaskPhase.REFUSED: ReplicaState.CREATED,
    TaskPhase.RUNS: ReplicaState.RUNNING,
    TaskPhase.ENDED: ReplicaState.EXITED,
}


def nodes_of(listed: Iterable[Mapping[str, Any]]) -> dict[str, Node]:
    """Return the machines of the engine's list, by id."""
    return {item["ID"]: _node(item) for item in listed}


def run_of(tasks: Iterable[Mapping[str, Any]], nodes: Mapping[str, Node]) -> Run | None:
    """Return the run of a service whose tasks these are; ``None`` before the swarm has made one."""
    first = min(tasks, key=lambda task: datetime.fromisoformat(task["CreatedAt"]), default=None)
    if first is None:
        return None
    status, container = first["Status"], first["Status"].get("ContainerStatus") or {}
    node = nodes.get(first.get("NodeID", ""))
    return Run(
        task_id=first["ID"],
        node_id=first.get("NodeID", ""),
        node_name=node.name if node else first.get("NodeID", ""),
        container_id=container.get("ContainerID", ""),
        phase=_phase(first, node),
        exit_code=int(container.get("ExitCode", 0)),
        why=status.get("Err", ""),
        created_at=datetime.fromisoformat(first["CreatedAt"]),
        at=datetime.fromisoformat(status["Timestamp"]),
    )


def job_in(tasks: Iterable[Mapping[str, Any]], machine: str, container_id: str) -> str | None:
    """
    Return the uid of the job that runs in a container.

    :param tasks: of one training service, as the engine's API lists them.
    :return: ``None``: no task of a job is said to run there in it.
    """
    for task in tasks:
        status = task["Status"]
        container = status.get("ContainerStatus") or {}
        is_there = task.get("NodeID") == machine and container.get("ContainerID") == container_id
        if is_there and status["State"] in _LIVES:
            labels = task["Spec"]["ContainerSpec"].get("Labels") or {}
            return str(labels[JOB_UID]) if JOB_UID in labels else None
    return None


def _phase(task: Mapping[str, Any], node: Node | None) -> TaskPhase:
    status = task["Status"]
    state, container = status["State"], status.get("ContainerStatus") or {}
    if state in _ENDED:
        if not container.get("ContainerID") or status.get("Message") not in _HAS_RUN:
            return TaskPhase.REFUSED
        # Failed with 0: the container was removed under the swarm, and its exit code with it.
        is_lost = state == "failed" and not container.get("ExitCode")
        return TaskPhase.LOST if is_lost else TaskPhase.ENDED
    if state == "rejected":
        # With a container: the swarm took a running one from its machine.
        return TaskPhase.LOST if container.get("ContainerID") else TaskPhase.REFUSED
    if state in _BEFORE_NODE:
        return TaskPhase.WAITS
    if state in ("orphaned", "remove") or node is None or node.is_down:
        return TaskPhase.LOST
    return TaskPhase.PREPARES if state in _BEFORE_START else TaskPhase.RUNS


def _node(item: Mapping[str, Any]) -> Node:
    size = item.get("Description", {}).get("Resources", {})
    state = item["Status"]["State"]
    return Node(
        node_id=item["ID"],
        name=item.get("Description", {}).get("Hostname") or item["ID"],
        resources=Resources(
            cpus=size.get("NanoCPUs", 0) / 1e9,
            memory_bytes=int(size.get("MemoryBytes", 0)),
            gpus=sum(map(gpus_offered, size.get("GenericResources") or ())),
        ),
        is_down=state == "down",
        is_open=state == "ready" and item["Spec"].get("Availability", "active") == "active",
    )
