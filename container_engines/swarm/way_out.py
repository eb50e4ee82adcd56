"""
How limited replicas of a swarm reach what is outside of their job's network. Pure.

By default the way out is ``docker_gwbridge``, which all containers of the swarm share on a machine. Rules for
it would be rules for the services of others, too. So replicas use a bridge of their training service
instead. It is a network with swarm scope, which each machine creates from its local configuration
(``docker network create --scope swarm --config-from``). The configuration names the interface, which the
rules know. The machine's agent makes it after the rules, and no machine starts a replica without it
(``machine_bridge.py``). A bridge with a gateway takes the place of ``docker_gwbridge`` [moby: needDefaultGW].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from container_engines.confinement import BRIDGE_NAME, IS_OPEN_INSIDE
from container_engines.egress import mark_of, shared_bridge_of


@dataclass(frozen=True, slots=True)
class WayOut:
    """
    What a replica's service needs for it.

    :param network_id: the swarm's network.
    :param dns: name servers; empty: the engine's.
    :param hosts: addresses by name, beside what name servers say.
    """

    network_id: str
    dns: Sequence[str] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)


def interface_of(service_id: str) -> str:
    """Return the name of the interface on each machine."""
    return shared_bridge_of(mark_of(service_id))


def own_name(host_name: str) -> str:
    """
    Return the container's ``Hostname``; its peers look up ``host_name``.

    The engine registers a container's ``Hostname`` in each of its networks, and searches networks with a
    gateway first [moby: updateNetworkConfig, epHeap.Less]. If it were ``host_name``, a peer on the same
    machine would get the address in the bridge, where no replica reaches another. The container's own hosts
    file has the ``Hostname``, and its part before the first dot, with both addresses in any order.
    """
    return f"{host_name}-self"


def network_name(service_id: str) -> str:
    """Return the name of the swarm's network."""
    return f"ct-out-{mark_of(service_id)}"


def config_name(service_id: str) -> str:
    """Return the name of the configuration on each machine."""
    return f"{network_name(service_id)}-config"


def network_spec(service_id: str) -> dict[str, Any]:
    """Return the swarm's network, as the engine's API takes it; labels are the configuration's."""
    return {
        "Name": network_name(service_id),
        "Driver": "bridge",
        "Scope": "swarm",
        "ConfigFrom": {"Network": config_name(service_id)},
    }


def config_spec(service_id: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a machine's configuration of it."""
    return {
        "Name": config_name(service_id),
        "ConfigOnly": True,
        "Options": {BRIDGE_NAME: interface_of(service_id), IS_OPEN_INSIDE: "false"},
        "Labels": dict(labels),
    }
