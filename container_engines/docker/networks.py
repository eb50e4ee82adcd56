"""How many networks a Docker Engine has addresses for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Any

from container_engines.labels import is_of_job

#: Without ``default-address-pools``: 172.17.0.0/16 to 172.31.0.0/16, and 192.168.0.0/16 in parts of 4,096
#: addresses [moby: libnetwork/ipamutils, localScopeDefaultNetworks]. Else ``info`` has the pools.
_BUILT_IN = 15 + 16


def networks_left(info: Mapping[str, Any], networks: Iterable[Mapping[str, Any]], service_id: str) -> int:
    """
    Return how many networks of this service's jobs there can be in all; at least 1.

    An upper bound: the engine skips pools that overlap the machine's own addresses; this count does not.

    :param networks: the engine's list.
    """
    pools = [(ip_network(pool["Base"]), int(pool["Size"])) for pool in info.get("DefaultAddressPools") or ()]
    of_pools = sum(2 ** max(size - base.prefixlen, 0) for base, size in pools if base.version == 4)
    others = [
        network
        for network in networks
        if network.get("Driver") == "bridge" and not is_of_job(network.get("Labels") or {}, service_id)
    ]
    return max((of_pools or _BUILT_IN) - len(others), 1)
