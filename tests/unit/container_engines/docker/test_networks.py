"""How many networks of jobs an engine has addresses for."""

from __future__ import annotations

from typing import Any

import pytest

from container_engines.docker.networks import networks_left
from container_engines.labels import JOB_UID, SERVICE

BRIDGE: dict[str, Any] = {"Name": "bridge", "Driver": "bridge", "Labels": {}}
OWN: dict[str, Any] = {"Name": "ct-1", "Driver": "bridge", "Labels": {SERVICE: "me", JOB_UID: "1"}}
SHARED: dict[str, Any] = {"Name": "ct-shared", "Driver": "bridge", "Labels": {SERVICE: "me"}}
OTHER: dict[str, Any] = {"Name": "ct-2", "Driver": "bridge", "Labels": {SERVICE: "you", JOB_UID: "2"}}
HOST: dict[str, Any] = {"Name": "host", "Driver": "host", "Labels": None}


@pytest.mark.parametrize(
    ("pools", "networks", "expected"),
    [
        (None, [], 31),
        (None, [BRIDGE, HOST], 30),
        (None, [BRIDGE, HOST, OWN, OTHER], 29),
        (None, [BRIDGE, HOST, OWN, SHARED], 29),
        ([{"Base": "10.99.0.0/24", "Size": 24}], [], 1),
        ([{"Base": "10.99.0.0/24", "Size": 24}], [BRIDGE, OTHER], 1),
        ([{"Base": "10.0.0.0/8", "Size": 24}], [BRIDGE], 2**16 - 1),
        ([{"Base": "10.1.0.0/16", "Size": 20}, {"Base": "10.2.0.0/16", "Size": 24}], [], 16 + 256),
        ([{"Base": "10.1.0.0/16", "Size": 20}, {"Base": "fd00::/48", "Size": 64}], [], 16),
    ],
)
def test_there_can_be_as_many_as_its_pools_hold_less_those_of_others(
    pools: list[dict[str, Any]] | None, networks: list[dict[str, Any]], expected: int
) -> None:
    assert networks_left({"DefaultAddressPools": pools}, networks, "me") == expected
    if pools is None:
        assert networks_left({}, networks, "me") == expected
