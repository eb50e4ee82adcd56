"""The agents of machines: one service and one token each, and the login for their image."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from container_engines.swarm import agents, api
from container_engines.swarm.agent import AGENT_OF, AgentLaunch
from container_engines.swarm.agents import MachineAgents
from container_engines.swarm.api import SwarmApi
from training_api.errors import EngineError


class Manager:
    """
    Stands for a manager's client.

    ``posts`` are the paths of what was posted, and the login with it; ``refused``: machines for which nothing
    is made.
    """

    def __init__(self) -> None:
        self.machines = ["n1", "n2"]
        self.found: dict[str, dict[str, Any]] = {}
        self.kept: dict[str, dict[str, Any]] = {}
        self.posts: list[str] = []
        self.states: dict[str, tuple[str, str]] = {}
        self.refused: set[str] = set()

    def nodes(self) -> list[dict[str, Any]]:
        resources = {"NanoCPUs": 10**9, "MemoryBytes": 1 << 30}
        return [
            {
                "ID": machine,
                "Description": {"Hostname": machine, "Resources": resources},
                "Spec": {"Availability": "active"},
                "Status": {"State": "ready"},
            }
            for machine in self.machines
        ]

    def services(self, **_: object) -> list[dict[str, Any]]:
        return list(self.found.values())

    def remove_service(self, service_id: str) -> None:
        del self.found[service_id]

    def secrets(self, **_: object) -> list[dict[str, Any]]:
        return list(self.kept.values())

    def create_secret(self, name: str, content: bytes, labels: dict[str, str]) -> dict[str, str]:
        assert labels == {AGENT_OF: "mine"}
        self.kept[name] = {"ID": name, "Spec": {"Name": name}, "content": content.decode()}
        return {"ID": name}

    def remove_secret(self, secret_id: str) -> None:
        del self.kept[secret_id]

    def tasks(self, **_: object) -> list[dict[str, Any]]:
        return [
            {
                "CreatedAt": "2026-01-01",
                "NodeID": name.removeprefix("ct-agent-mine-"),
                "ServiceID": name,
                "Status": dict(zip(("State", "Err"), self.states.get(name, ("running", "")), strict=True)),
            }
            for name in self.found
        ]

    def post(self, _: object, path: str, spec: dict[str, Any], **options: Any) -> dict[str, Any]:
        name = spec["Name"]
        if name.removeprefix("ct-agent-mine-") in self.refused:
            raise EngineError(f"{name} is refused")
        login = json.loads(base64.urlsafe_b64decode(options["headers"]["X-Registry-Auth"]))
        self.posts.append(f"{path} {login.get('registrytoken', '')}")
        self.found[name] = {"ID": name, "Version": {"Index": 1}, "Spec": spec}
        return {}

    def tokens(self) -> dict[str, str]:
        """Return the token of each machine's service."""
        return {
            name: self.kept[secret["SecretID"]]["content"]
            for name, item in self.found.items()
            for secret in item["Spec"]["TaskTemplate"]["ContainerSpec"]["Secrets"]
        }


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    manager = Manager()
    connection = SimpleNamespace(client=manager, close=lambda: None)
    monkeypatch.setattr(api, "DockerConnection", lambda _: connection)
    monkeypatch.setattr(agents, "post", manager.post)
    return manager


def new_process() -> MachineAgents:
    return MachineAgents("mine", SwarmApi("mine", ""))


def make_agent(logins: list[str] | None = None, code: str = "1") -> AgentLaunch:
    return AgentLaunch(
        image="registry:5000/demo/agent:1",
        url="https://service",
        token_of=lambda machine: f"{machine}.{code}",
        folder="/folder",
        pull_token=lambda: logins.pop(0) if logins else "",
    )


def test_each_machine_has_a_service_with_a_token_of_its_own(manager: Manager) -> None:
    new_process().keep(make_agent())
    new_process().keep(make_agent())

    assert manager.tokens() == {"ct-agent-mine-n1": "n1.1", "ct-agent-mine-n2": "n2.1"}
    assert manager.posts == ["/services/create "] * 2


def test_machines_that_join_and_leave_are_followed(manager: Manager) -> None:
    new_process().keep(make_agent())
    manager.machines = ["n2", "n3"]

    new_process().keep(make_agent())

    assert manager.tokens() == {"ct-agent-mine-n2": "n2.1", "ct-agent-mine-n3": "n3.1"}
    assert sorted(each["content"] for each in manager.kept.values()) == ["n2.1", "n3.1"]


def test_another_key_makes_other_tokens_and_the_old_ones_go(manager: Manager) -> None:
    new_process().keep(make_agent())

    new_process().keep(make_agent(code="2"))

    assert manager.tokens() == {"ct-agent-mine-n1": "n1.2", "ct-agent-mine-n2": "n2.2"}
    assert manager.posts[2:] == [f"/services/ct-agent-mine-{name}/update " for name in ("n1", "n2")]
    assert len(manager.kept) == 2


def test_what_an_earlier_version_made_for_all_machines_goes_first(manager: Manager) -> None:
    manager.found["old"] = {"ID": "old", "Version": {"Index": 1}, "Spec": {"Name": "ct-agent-mine"}}

    new_process().keep(make_agent())

    assert list(manager.found) == ["ct-agent-mine-n1", "ct-agent-mine-n2"]


def test_a_machine_whose_agent_cannot_be_made_stops_no_other(manager: Manager) -> None:
    manager.refused = {"n1"}

    with pytest.raises(EngineError, match="ct-agent-mine-n1 is refused"):
        new_process().keep(make_agent())

    assert list(manager.found) == ["ct-agent-mine-n2"]


def test_nothing_is_left_without_agents(manager: Manager) -> None:
    new_process().keep(make_agent())

    new_process().remove()

    assert (manager.found, manager.kept) == ({}, {})


def test_a_machine_gets_a_login_with_its_agent_and_another_when_it_was_refused(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent(["first", "second", "third", "fourth", "fifth"])
    new_process().keep(agent)
    # The next process, as after a kill: it does not know how old the logins are.
    process = new_process()
    process.keep(agent)
    assert manager.posts == ["/services/create first"] * 2

    manager.states["ct-agent-mine-n2"] = ("rejected", "No such image: registry:5000/demo/agent:1")
    process.keep(agent)
    assert manager.posts[2:] == ["/services/ct-agent-mine-n2/update third"]
    # It was just given one: more do not help, and would start pulls again.
    process.keep(agent)
    assert len(manager.posts) == 3
    monkeypatch.setattr(agents, "_LOGIN_SECONDS", 0)
    process.keep(agent)
    assert manager.posts[3:] == ["/services/ct-agent-mine-n2/update fifth"]


def test_an_image_that_needs_no_login_is_left_to_the_swarm(manager: Manager) -> None:
    new_process().keep(make_agent())
    manager.states["ct-agent-mine-n1"] = ("rejected", "No such image: elsewhere/agent:1")

    new_process().keep(make_agent())

    assert manager.posts == ["/services/create "] * 2
