"""How often names are looked up for replicas that cannot look them up."""

from __future__ import annotations

import pytest

from container_engines import endpoint_addresses
from container_engines.egress import Egress, EgressMode, Endpoint
from container_engines.swarm.facts import NodeFacts
from container_engines.swarm.limits import EgressLimits
from tests.support.fakes.virtual_time import VirtualClock


def test_names_are_looked_up_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        looked_up.append(host)
        return [(0, 0, 0, "", ("10.9.9.9", port))]

    monkeypatch.setattr(endpoint_addresses.socket, "getaddrinfo", look_up)
    clock = VirtualClock()
    egress = Egress(EgressMode.NONE, (Endpoint("mlflow.lan", 5000),))
    limits = EgressLimits(egress, NodeFacts(), lambda: clock.seconds)
    for clock.seconds in (0.0, 10.0, 60.0, 61.0):
        limits.keep()

    assert looked_up == ["mlflow.lan"] * 2
    assert limits.way_out("network").hosts == {"mlflow.lan": "10.9.9.9"}
