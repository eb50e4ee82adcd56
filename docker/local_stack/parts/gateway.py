"""The way from containers to this machine: the engine's bridge, and the relay on it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import docker
import psutil

from local_stack.parts.engine import connect
from local_stack.parts.part import Listener, StackPart, answers_ok
from local_stack.processes.supervisor_config import Program
from local_stack.settings import LOOPBACK, Part


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


class Relay(StackPart):
    """Makes the object store reachable for containers, as host.docker.internal."""

    name = Part.RELAY

    def address(self) -> str:
        """Return where containers connect to."""
        gateway = self._gateway()
        return f"{gateway}:{self.settings.object_store_port}" if gateway else "not needed with this engine"

    def is_healthy(self) -> bool:
        """Tell whether the object store answers through the relay."""
        gateway = self._gateway()
        return gateway is None or answers_ok(f"http://{gateway}:{self.settings.object_store_port}/health")

    def listeners(self) -> Sequence[Listener]:
        """Return the bridge's address, with the object store's port."""
        gateway = self._gateway()
        if gateway is None:
            return ()
        return [
            Listener(
                host=gateway, port=self.settings.object_store_port, setting="LOCAL_STACK_OBJECT_STORE_PORT"
            )
        ]

    def programs(self) -> Sequence[Program]:
        """Return the relay; nothing where the engine forwards to loopback by itself."""
        gateway = self._gateway()
        if gateway is None:
            return ()
        port = self.settings.object_store_port
        command = (
            sys.executable,
            "-m",
            "local_stack.processes.relay",
            f"--listen={gateway}:{port}",
            f"--to={LOOPBACK}:{port}",
        )
        return [Program(name=self.name.value, command=command)]

    def _gateway(self) -> str | None:
        return find_gateway(self.settings.engine_url)
