"""How many networks a swarm can make, and how many addresses each has."""

from __future__ import annotations

from typing import Any

import pytest

from container_engines.swarm.pools import AddressPools, pools_of


@pytest.mark.parametrize(
    ("cluster", "networks", "addresses"),
    [
        ({}, 65_536, 253),
        ({"DefaultAddrPool": ["10.0.0.0/8"], "SubnetSize": 24}, 65_536, 253),
        ({"DefaultAddrPool": ["10.7.0.0/24", "10.8.0.0/24"], "SubnetSize": 26}, 8, 61),
    ],
)
def test_pools_are_cut_into_subnets(cluster: dict[str, Any], networks: int, addresses: int) -> None:
    info = {"Swarm": {"Cluster": cluster}}

    assert pools_of(info, [], "who=me") == AddressPools(networks=networks, addresses=addresses)


def test_networks_of_others_take_subnets_and_one_is_left_in_any_case() -> None:
    info = {"Swarm": {"Cluster": {"DefaultAddrPool": ["10.7.0.0/24"], "SubnetSize": 25}}}
    mine, theirs = {"Labels": {"who": "me"}}, {"Labels": None}

    assert pools_of(info, [theirs, mine], "who=me").networks == 1
    assert pools_of(info, [theirs, theirs, theirs], "who=me").networks == 1
