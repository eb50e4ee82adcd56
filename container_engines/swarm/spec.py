"""
The Swarm service for one run of a replica, as the engine's API takes it. Pure.

Mode ``replicated``, once, never restarted. A service of mode ``replicated-job`` keeps its container when it
is removed, and when its node is drained (seen with Engine 20.10). Source of the fields:
docs.docker.com/reference/api/engine, "ServiceCreate".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from container_engines.base import FILE_MODE, METRIC_FOLDER, OPEN_FOLDER_MODE, ReplicaLaunch
from container_engines.confinement import DNS_OPTIONS, DROPPED_CAPABILITIES, MACHINE_NAME
from container_engines.docker.log_files import log_files
from container_engines.swarm.gpus import GPU_KIND
from container_engines.swarm.tasks import Node
from container_engines.swarm.way_out import WayOut, own_name

#: A constraint that no node meets.
_NOWHERE = "node.labels.container-training.stopped==yes"


def job_prefix(job_uid: str) -> str:
    """Return what the names of all services of a job begin with."""
    return f"ct-{job_uid}-"


def service_name(launch: ReplicaLaunch) -> str:
    """Return the name of the run's service: a DNS label, so no dot."""
    return f"{job_prefix(launch.job_uid)}{launch.replica.task_name}-{str(launch.attempt).replace('.', '-')}"


def secret_name(launch: ReplicaLaunch, name: str) -> str:
    """Return the swarm's name of a run's secret; it has at most 64 characters."""
    digest = hashlib.sha256(f"{service_name(launch)}/{name}".encode()).hexdigest()[:24]
    return f"{job_prefix(launch.job_uid)}{digest}"


def service_spec(
    launch: ReplicaLaunch,
    *,
    network_id: str,
    secret_ids: Mapping[str, str],
    labels: Mapping[str, str],
    grace_seconds: float,
    nodes: Iterable[Node],
    way_out: WayOut | None = None,
) -> dict[str, Any]:
    """
    Return the run's service: with limits, without unneeded capabilities, alone with its job.

    :param secret_ids: ids of the swarm's secrets that hold the run's files, by their names; a name that is a
        path is where the container has the file.
    :param nodes: machines of the swarm. Unless the launch names one, those that are too small for the limits
        are excluded, because an engine refuses a limit of more cores than it has.
    :param way_out: in place of the swarm's own bridge.
    """
    container = {
        "Image": launch.image_id,
        "Command": list(launch.command) or None,
        "Args": list(launch.args) or None,
        "Hostname": own_name(launch.host_name) if way_out else launch.host_name,
        "Env": [
            f"{name}={value}" for name, value in {**launch.secrets.environment, **launch.environment}.items()
        ],
        "Secrets": [
            {
                "SecretID": secret_id,
                "SecretName": secret_name(launch, name),
                "File": {"Name": name, "UID": "0", "GID": "0", "Mode": FILE_MODE},
            }
            for name, secret_id in secret_ids.items()
        ],
        "Mounts": [
            *(
                {"Type": "tmpfs", "Target": folder, "TmpfsOptions": {"Mode": OPEN_FOLDER_MODE}}
                for folder in launch.folders
            ),
            *(
                [{"Type": "bind", "Source": launch.metric_folder, "Target": METRIC_FOLDER}]
                if launch.metric_folder
                else []
            ),
        ],
        "Labels": dict(labels),  # tasks and their containers carry these, not the service's
        "Init": True,  # so that SIGTERM reaches a trainer that is PID 1, and its children are reaped
        "StopGracePeriod": round(grace_seconds * 1e9),
        "CapabilityDrop": list(DROPPED_CAPABILITIES),
        "Privileges": {"NoNewPrivileges": True},  # engines before 25 do not know it
        "DNSConfig": {
            "Options": list(DNS_OPTIONS),
            **({"Nameservers": list(way_out.dns)} if way_out and way_out.dns else {}),
        },
        "Hosts": [
            f"host-gateway {MACHINE_NAME}",
            *(f"{address} {name}" for name, address in (way_out.hosts if way_out else {}).items()),
        ],
    }
    resources: dict[str, Any] = {
        "Limits": {
            "NanoCPUs": round(launch.resources.cpus * 1e9),
            "MemoryBytes": launch.resources.memory_bytes,
            "Pids": launch.pids_limit,
        },
        "Reservations": _reserved(launch),
    }
    return {
        "Name": service_name(launch),
        "Labels": dict(labels),
        "Mode": {"Replicated": {"Replicas": 1}},
        "EndpointSpec": {"Mode": "dnsrr"},  # the name is the container's own address, and needs no IPVS
        "TaskTemplate": {
            "ContainerSpec": container,
            "Resources": resources,
            "RestartPolicy": {"Condition": "none"},
            "Placement": {"Constraints": _constraints(launch, nodes)},
            "LogDriver": {"Name": log_files().type, "Options": log_files().config},
            "Networks": [
                {"Target": network_id, "Aliases": [launch.host_name]},
                *([{"Target": way_out.network_id}] if way_out else []),
            ],
        },
    }


def stopped(spec: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return ``spec`` changed so that its run is stopped and no other takes its place.

    The run's task stays with its exit code and its log. (A service scaled to 0, or removed, loses both.)
    """
    changed = deepcopy(dict(spec))
    changed["TaskTemplate"]["Placement"] = {"Constraints": [_NOWHERE]}
    return changed


def is_stopped(spec: Mapping[str, Any]) -> bool:
    """Whether ``stopped`` made it."""
    return _NOWHERE in (spec["TaskTemplate"].get("Placement") or {}).get("Constraints", ())


def _reserved(launch: ReplicaLaunch) -> dict[str, Any]:
    reserved: dict[str, Any] = {}
    if launch.reserved:
        reserved["NanoCPUs"] = round(launch.reserved.cpus * 1e9)
        reserved["MemoryBytes"] = launch.reserved.memory_bytes
    if launch.resources.gpus:
        gpus = {"DiscreteResourceSpec": {"Kind": GPU_KIND, "Value": launch.resources.gpus}}
        reserved["GenericResources"] = [gpus]
    return reserved


def _constraints(launch: ReplicaLaunch, nodes: Iterable[Node]) -> list[str]:
    if launch.machine:
        return [f"node.id=={launch.machine}"]
    return [f"node.id!={node.node_id}" for node in nodes if _is_small(node, launch)]


def _is_small(node: Node, launch: ReplicaLaunch) -> bool:
    wanted, there = launch.resources, node.resources
    return wanted.cpus > there.cpus or wanted.memory_bytes > there.memory_bytes
