"""
The addresses of a swarm's machines, and of containers on the manager's machine. Pure.

A container's packets leave its machine with that machine's address. Those for the manager's own machine stay
in it, and have the container's address in a bridge of that machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Any


def has_address(
    nodes: Iterable[Mapping[str, Any]], bridges: Iterable[Mapping[str, Any]], address: str
) -> bool:
    """
    Tell whether ``address`` is one of a machine's, or in a network of the manager's machine.

    :param nodes: as the engine's API lists them.
    :param bridges: networks of the driver ``bridge``, as the engine's API lists them.
    """
    try:
        asked = ip_address(address)
    except ValueError:
        return False
    for node in nodes:
        manager = (node.get("ManagerStatus") or {}).get("Addr", "").rpartition(":")[0]
        if str(asked) in (node.get("Status", {}).get("Addr"), manager.strip("[]")):
            return True
    for bridge in bridges:
        for plan in (bridge.get("IPAM") or {}).get("Config") or ():
            with suppress(KeyError, ValueError):
                if asked in ip_network(plan["Subnet"], strict=False):
                    return True
    return False
