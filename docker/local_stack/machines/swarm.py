"""The swarm that the engine manages: made if there is none, never left, and who is in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

import docker
from docker.errors import APIError

from local_stack.errors import LocalStackError

MANAGER_PORT = 2377
"""Where machines join, and workers reach their manager; Swarm's default."""
GOSSIP_PORT = 7946
"""Where machines tell each other of networks, over TCP and UDP; it cannot be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """
    A machine of the swarm.

    :param state: ``ready``, ``down``, ``unknown`` or ``disconnected``.
    :param availability: ``active``, ``pause`` or ``drain``.
    :param address: as the manager sees it.
    """

    node_id: str
    name: str
    address: str
    state: str
    availability: str
    is_manager: bool
    cpus: float
    memory_bytes: int
    engine_version: str


def ensure_manager(client: docker.DockerClient, address: IPv4Address) -> bool:
    """
    Make the engine the manager of a swarm at ``address``; return whether it was none before.

    A swarm that is there is used as it is, and no swarm is ever left.

    :raises LocalStackError: the engine is in a swarm that it does not manage at this address.
    """
    swarm: Mapping[str, Any] = client.info().get("Swarm") or {}
    state = swarm.get("LocalNodeState")
    if state == "inactive":
        try:
            client.api.init_swarm(
                advertise_addr=str(address),
                listen_addr=f"{address}:{MANAGER_PORT}",
                data_path_addr=str(address),
            )
        except APIError as error:
            raise LocalStackError(
                f"the engine cannot manage a swarm at {address}: {error.explanation}"
            ) from error
        return True
    if state != "active":
        reason = swarm.get("Error") or "it says no more"
        raise LocalStackError(
            f"the engine's state in its swarm must be 'active' or 'inactive', got {state!r}: {reason}; repair the "
            "swarm, or leave it (docker swarm leave)"
        )
    if not swarm.get("ControlAvailable"):
        raise LocalStackError(
            "the engine must be a manager, and it is a worker of another swarm; run the stack on the manager of "
            "that swarm, or leave it (docker swarm leave)"
        )
    if swarm.get("NodeAddr") != str(address):
        raise LocalStackError(
            f"LOCAL_STACK_ADVERTISE_ADDRESS must be the address at which the engine manages its swarm, "
            f"{swarm.get('NodeAddr')}, got {address}; set that address, or leave the swarm (docker swarm leave --force)"
        )
    return False


def machines_of(client: docker.DockerClient) -> list[Machine]:
    """Return the machines of the swarm that the engine manages, by name; empty: it manages none."""
    swarm: Mapping[str, Any] = client.info().get("Swarm") or {}
    if not swarm.get("ControlAvailable"):
        return []
    found = [machine_of(node) for node in client.api.nodes()]
    return sorted(found, key=lambda each: (not each.is_manager, each.name, each.node_id))


def machine_of(node: Mapping[str, Any]) -> Machine:
    """
    Return one node of the engine's list. Pure. Source: Docker Engine API, "NodeInspect".

    A machine that is just joining has not described itself yet: it goes by its id.
    """
    description, status, manager = node.get("Description", {}), node["Status"], node.get("ManagerStatus")
    address = (manager or {}).get("Addr", "").rpartition(":")[0] or status.get("Addr", "")
    resources = description.get("Resources", {})
    return Machine(
        node_id=node["ID"],
        name=description.get("Hostname") or node["ID"],
        address=address,
        state=status.get("State", "unknown"),
        availability=node["Spec"]["Availability"],
        is_manager=manager is not None,
        cpus=resources.get("NanoCPUs", 0) / 1e9,
        memory_bytes=resources.get("MemoryBytes", 0),
        engine_version=description.get("Engine", {}).get("EngineVersion", ""),
    )


def worker_token(client: docker.DockerClient) -> str:
    """Return what lets a machine join as a worker; good until :func:`rotate_worker_token`."""
    token: str = client.api.inspect_swarm()["JoinTokens"]["Worker"]
    return token


def rotate_worker_token(client: docker.DockerClient) -> None:
    """Make the token for workers a new one; machines that have joined stay."""
    swarm = client.api.inspect_swarm()
    client.api.update_swarm(
        version=swarm["Version"]["Index"], swarm_spec=swarm["Spec"], rotate_worker_token=True
    )
