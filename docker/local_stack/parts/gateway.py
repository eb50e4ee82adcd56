"""The way from containers to this machine: the engine's bridge."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

import docker
import psutil

from local_stack.parts.engine import connect


def gateway_address(client: docker.DockerClient) -> str | None:
    """
    Return the address at which containers reach this machine as ``host-gateway``.

    :return: None if the address is not one of this machine's (Docker Desktop's engine runs in a virtual
        machine, which forwards to loopback by itself).
    """
    network: dict[str, Any] = client.networks.get("bridge").attrs
    bridge = network.get("Options", {}).get("com.docker.network.bridge.name", "docker0")
    local = {
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family.name == "AF_INET"
    }
    for config in network.get("IPAM", {}).get("Config") or []:
        # Engine 20.10 leaves out the gateway of a bridge that it chose itself: the first address of the
        # subnet.
        address = config.get("Gateway") or str(next(ip_network(config["Subnet"]).hosts()))
        if address in local:
            return str(address)
    for address in psutil.net_if_addrs().get(bridge, []):
        if address.family.name == "AF_INET":
            return str(address.address)
    return None


def find_gateway(engine_url: str) -> str | None:
    """Return what :func:`gateway_address` says about the engine at ``engine_url``."""
    client = connect(engine_url)
    try:
        return gateway_address(client)
    finally:
        client.close()
