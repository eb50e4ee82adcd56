"""The swarm's own secrets, made once and removed with their job; and the login of agents."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import NotFound

from container_engines.labels import JOB_UID, SERVICE
from container_engines.swarm import api
from container_engines.swarm.agent import AgentLaunch
from container_engines.swarm.api import SwarmApi
from tests.support.fakes.docker_api import FakeDocker, run_fake_docker


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        yield engine


def labels(job_uid: str) -> dict[str, str]:
    return {SERVICE: "mine", JOB_UID: job_uid}


def test_a_secret_is_made_once_and_goes_with_its_job(engine: FakeDocker) -> None:
    swarm = SwarmApi("mine", engine.url)

    # Another's name begins with it.
    other = swarm.ensure_secret("ct-1-ab", labels("2"), b"y")
    made = [swarm.ensure_secret("ct-1-a", labels("1"), b"x") for _ in range(2)]
    contents = [base64.b64decode(each["Data"]) for each in engine.secrets.values()]
    swarm.remove_secrets("1")
    swarm.close()

    assert (made, other) == (["id-ct-1-a"] * 2, "id-ct-1-ab")
    assert contents == [b"y", b"x"]
    assert list(engine.secrets) == ["ct-1-ab"]


class Manager:
    """Stands for a manager's client: one service, and what was posted for it."""

    def __init__(self) -> None:
        self.spec: dict[str, Any] | None = None
        self.logins: list[str] = []
        self.state, self.error = "running", ""

    def create_secret(self, name: str, *_: object) -> dict[str, str]:
        return {"ID": f"id-{name}"}

    def secrets(self, **_: object) -> list[dict[str, str]]:
        return []

    def inspect_service(self, _: str) -> dict[str, Any]:
        if self.spec is None:
            raise NotFound("no such service")
        return {"ID": "id", "Version": {"Index": 1}, "Spec": self.spec}

    def tasks(self, **_: object) -> list[dict[str, Any]]:
        status = {"State": self.state, "Err": self.error}
        return [{"CreatedAt": "2026-01-01", "NodeID": "n1", "Status": status}]

    def post(self, _: object, path: str, spec: dict[str, Any], **options: Any) -> Mapping[str, Any]:
        headers = options["headers"]
        login = json.loads(base64.urlsafe_b64decode(headers["X-Registry-Auth"]))
        self.spec = spec
        self.logins.append(f"{path}: {login.get('registrytoken', '')}")
        return {}


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    manager = Manager()
    connection = SimpleNamespace(client=manager, close=lambda: None)
    monkeypatch.setattr(api, "DockerConnection", lambda _: connection)
    monkeypatch.setattr(api, "post", manager.post)
    return manager


def make_agent(tokens: list[str]) -> AgentLaunch:
    return AgentLaunch(
        image="registry:5000/demo/agent:1",
        url="https://service",
        token="token",
        folder="/folder",
        pull_token=lambda: tokens.pop(0) if tokens else "",
    )


def test_agents_get_a_login_with_their_service_and_another_when_a_machine_was_refused(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make_agent(["first", "second", "third", "fourth", "fifth"])
    SwarmApi("mine", "").ensure_agents(agent)
    # The next process, as after a kill: it does not know how old the login is.
    swarm = SwarmApi("mine", "")
    swarm.ensure_agents(agent)
    assert manager.logins == ["/services/create: first"]

    manager.state, manager.error = "rejected", "No such image: registry:5000/demo/agent:1"
    swarm.ensure_agents(agent)
    assert manager.logins[1:] == ["/services/id/update: third"]
    # It was just given one: more do not help, and would start pulls again.
    swarm.ensure_agents(agent)
    assert len(manager.logins) == 2
    monkeypatch.setattr(api, "_LOGIN_SECONDS", 0)
    swarm.ensure_agents(agent)
    assert manager.logins[2:] == ["/services/id/update: fifth"]


def test_an_image_that_needs_no_login_is_left_to_the_swarm(manager: Manager) -> None:
    SwarmApi("mine", "").ensure_agents(make_agent([]))
    manager.state, manager.error = "rejected", "No such image: elsewhere/agent:1"

    SwarmApi("mine", "").ensure_agents(make_agent([]))

    assert manager.logins == ["/services/create: "]
