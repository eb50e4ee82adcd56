"""The swarm that the engine manages: made where there is none, and used as it is elsewhere."""

from __future__ import annotations

from ipaddress import IPv4Address
from types import SimpleNamespace
from typing import Any

import pytest

from local_stack.errors import LocalStackError
from local_stack.machines.swarm import ensure_manager, machine_of, machines_of, rotate_worker_token

ADDRESS = IPv4Address("10.0.0.5")


class Engine:
    """Stands for a ``docker.DockerClient``: its part in a swarm, and what it was asked to do."""

    def __init__(self, **swarm: Any) -> None:
        self.swarm = {"LocalNodeState": "inactive", "NodeAddr": "", "ControlAvailable": False} | swarm
        self.nodes: list[dict[str, Any]] = []
        self.acts: list[tuple[str, Any]] = []
        self.api = SimpleNamespace(
            init_swarm=lambda **options: self.acts.append(("init", options)),
            update_swarm=lambda **options: self.acts.append(("update", options)),
            inspect_swarm=lambda: {"Version": {"Index": 7}, "Spec": {"Name": "default"}},
            nodes=lambda: self.nodes,
        )

    def info(self) -> dict[str, Any]:
        return {"Swarm": self.swarm}


def node(name: str, *, address: str = "10.0.0.6", manager: str = "") -> dict[str, Any]:
    return {
        "ID": f"id-{name}",
        "Spec": {"Availability": "active"},
        "Description": {
            "Hostname": name,
            "Resources": {"NanoCPUs": 2_000_000_000, "MemoryBytes": 4 << 30},
            "Engine": {"EngineVersion": "27.1.1"},
        },
        "Status": {"State": "ready", "Addr": address},
        **({"ManagerStatus": {"Addr": manager}} if manager else {}),
    }


@pytest.mark.parametrize("described", [{}, {"Resources": {}, "Engine": {}}])
def test_a_machine_that_is_just_joining_goes_by_its_id(described: dict[str, Any]) -> None:
    joining = node("later") | {"Description": described, "Status": {"Addr": "10.0.0.7"}}

    machine = machine_of(joining)

    assert (machine.name, machine.address, machine.state) == ("id-later", "10.0.0.7", "unknown")
    assert (machine.cpus, machine.memory_bytes, machine.engine_version) == (0, 0, "")


def ensure(engine: Engine) -> bool:
    return ensure_manager(engine, ADDRESS)  # type: ignore[arg-type]


def test_a_swarm_listens_at_the_address_alone() -> None:
    engine = Engine()

    assert ensure(engine)

    options = {"advertise_addr": "10.0.0.5", "listen_addr": "10.0.0.5:2377", "data_path_addr": "10.0.0.5"}
    assert engine.acts == [("init", options)]


def test_a_swarm_that_is_there_is_used_as_it_is() -> None:
    engine = Engine(LocalNodeState="active", ControlAvailable=True, NodeAddr="10.0.0.5")

    assert not ensure(engine)
    assert not engine.acts


@pytest.mark.parametrize(
    ("swarm", "says"),
    [
        ({"LocalNodeState": "active"}, "worker of another swarm"),
        (
            {"LocalNodeState": "active", "ControlAvailable": True, "NodeAddr": "10.9.9.9"},
            "10.9.9.9, got 10.0.0.5",
        ),
        ({"LocalNodeState": "locked"}, "got 'locked'"),
        ({"LocalNodeState": "error", "Error": "no quorum"}, "no quorum"),
    ],
)
def test_a_swarm_that_the_engine_does_not_manage_here_is_neither_left_nor_used(
    swarm: dict[str, Any], says: str
) -> None:
    engine = Engine(**swarm)

    with pytest.raises(LocalStackError, match=says):
        ensure(engine)

    assert not engine.acts


def test_machines_are_listed_with_the_manager_first() -> None:
    engine = Engine(LocalNodeState="active", ControlAvailable=True)
    engine.nodes = [node("b"), node("a"), node("z", address="0.0.0.0", manager="10.0.0.5:2377")]  # noqa: S104  # as engines say

    found = machines_of(engine)  # type: ignore[arg-type]

    assert [(each.name, each.address, each.is_manager) for each in found] == [
        ("z", "10.0.0.5", True),
        ("a", "10.0.0.6", False),
        ("b", "10.0.0.6", False),
    ]
    assert machine_of(node("a")).cpus == 2
    assert not machines_of(Engine())  # type: ignore[arg-type]


def test_the_token_for_workers_is_replaced_and_all_else_stays() -> None:
    engine = Engine()

    rotate_worker_token(engine)  # type: ignore[arg-type]

    options = {"version": 7, "swarm_spec": {"Name": "default"}, "rotate_worker_token": True}
    assert engine.acts == [("update", options)]
