"""The addresses from which a swarm makes its networks. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: Defaults of `docker swarm init` (docs.docker.com).
_POOL, _SUBNET_SIZE = "10.0.0.0/8", 24
#: The addresses of a subnet that no container gets: of the network itself, of its gateway, and for broadcast.
_NO_CONTAINER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressPools:
    """
    Subnets and their size.

    :param networks: how many networks of jobs there can be, including those that exist.
    :param addresses: of one network, for containers and for the ends of the machines that run one of them.
    """

    networks: int
    addresses: int


def pools_of(info: Mapping[str, Any], overlays: Iterable[Mapping[str, Any]], own_label: str) -> AddressPools:
    """
    Return the pools of the manager whose ``info`` this is.

    :param overlays: all overlay networks.
    :param own_label: ``key=value`` of the networks of jobs; all others take a subnet from them.
    """
    cluster = info.get("Swarm", {}).get("Cluster") or {}
    size = int(cluster.get("SubnetSize") or _SUBNET_SIZE)
    pools = [ipaddress.ip_network(each) for each in cluster.get("DefaultAddrPool") or [_POOL]]
    subnets = sum(2 ** max(size - pool.prefixlen, 0) for pool in pools)
    key, _, value = own_label.partition("=")
    others = sum((each.get("Labels") or {}).get(key) != value for each in overlays)
    return AddressPools(networks=max(subnets - others, 1), addresses=2 ** (32 - size) - _NO_CONTAINER)
