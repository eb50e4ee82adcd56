"""The way from containers to this machine: where it is found."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from local_stack.parts import gateway
from local_stack.parts.gateway import gateway_address

BRIDGE = {"Config": [{"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}]}


def engine_with(network: Mapping[str, Any]) -> Any:
    """Return an engine whose bridge is as ``network`` says."""
    return SimpleNamespace(networks=SimpleNamespace(get=lambda name: SimpleNamespace(attrs=network)))


@pytest.fixture
def interfaces(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The addresses of this machine, by interface; a test changes them."""
    found: dict[str, list[str]] = {"lo": ["127.0.0.1"], "docker0": ["172.17.0.1"]}

    def net_if_addrs() -> dict[str, list[Any]]:
        return {
            name: [
                SimpleNamespace(
                    family=SimpleNamespace(name="AF_INET6" if ":" in each else "AF_INET"), address=each
                )
                for each in addresses
            ]
            for name, addresses in found.items()
        }

    monkeypatch.setattr(gateway.psutil, "net_if_addrs", net_if_addrs)
    return found


def test_containers_come_through_the_gateway_of_the_bridge(interfaces: dict[str, list[str]]) -> None:
    assert gateway_address(engine_with({"IPAM": BRIDGE})) == "172.17.0.1"


def test_an_old_engine_does_not_say_its_gateway(interfaces: dict[str, list[str]]) -> None:
    ipam = {"Config": [{"Subnet": "172.17.0.0/16"}]}

    assert gateway_address(engine_with({"IPAM": ipam})) == "172.17.0.1"


def test_a_gateway_in_a_virtual_machine_is_none_of_this_machines(interfaces: dict[str, list[str]]) -> None:
    interfaces.clear()
    interfaces["lo"] = ["127.0.0.1"]

    assert gateway_address(engine_with({"IPAM": BRIDGE})) is None


@pytest.mark.parametrize("ipam", [{}, {"Config": None}])
def test_without_a_subnet_the_bridges_own_address_counts(
    interfaces: dict[str, list[str]], ipam: dict[str, Any]
) -> None:
    interfaces["br9"] = ["fe80::1", "10.9.0.1"]
    options = {"com.docker.network.bridge.name": "br9"}

    assert gateway_address(engine_with({"IPAM": ipam, "Options": options})) == "10.9.0.1"
