"""Which addresses may be those of containers of a swarm."""

from __future__ import annotations

import pytest

from container_engines.swarm.addresses import has_address

NODES = [
    {"Status": {"Addr": "0.0.0.0"}, "ManagerStatus": {"Addr": "10.0.0.5:2377"}},  # noqa: S104  # as engines say
    {"Status": {"Addr": "10.0.0.6"}},
    {"Status": {}},
]
BRIDGES = [
    {"IPAM": {"Config": [{"Subnet": "172.17.0.0/16"}]}},
    {"IPAM": {"Config": [{"Gateway": "172.19.0.1"}, {"Subnet": "172.18.0.0/16"}]}},
    {"IPAM": {"Config": None}},
    {},
]


@pytest.mark.parametrize("address", ["10.0.0.5", "10.0.0.6", "172.17.0.2", "172.18.3.4"])
def test_machines_and_containers_on_the_managers_are_inside(address: str) -> None:
    assert has_address(NODES, BRIDGES, address)


@pytest.mark.parametrize("address", ["10.0.0.7", "172.19.0.1", "10.255.255.254", "", "::1", "no address"])
def test_all_others_are_not(address: str) -> None:
    assert not has_address(NODES, BRIDGES, address)
