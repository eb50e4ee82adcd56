"""
The agent's metadata endpoint against the service's own routes.

Who gets which token, and for how long.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from training_service.access.agent_token import AgentTokens
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.registry_tokens import SERVICE
from training_service.access.signing_key import SigningKey
from training_service.agent.replica_addresses import ReplicaAddresses
from training_service.agent.replica_callers import ReplicaCallers
from training_service.agent.service_client import ServiceClient
from training_service.api.agents.identities import agent_identities_router
from training_service.api.errors import install_error_handlers
from training_service.api.middleware.agent_gate import AgentGate
from training_service.metadata.app import create_metadata_app
from training_service.metadata.issuing import JobCaller
from training_service.metadata.tree import JobIdentity

AGENTS = AgentTokens(SigningKey.generate())
EMAIL = "trainer@demo.iam.gserviceaccount.com"
KEY = SigningKey.generate()
TOKENS = IdentityTokens(KEY)
JOB = JobIdentity(project="demo", number=12, email=EMAIL, job_id="a_job", job_uid="0a")
ADDRESS, CONTAINER, NODE = "172.18.0.3", "container", "n1"
HEADER = {"Metadata-Flavor": "Google"}
ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default"


class Engine(httpx.BaseTransport):
    """One container in the machine's bridge."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if "networks" in request.url.path:
            return httpx.Response(200, json={"Containers": {CONTAINER: {"IPv4Address": f"{ADDRESS}/16"}}})
        return httpx.Response(200, json={"Config": {"Labels": {"service": "s"}}})


class Machine:
    """An agent's endpoint, and its service, which knows the container once it is ``placed``."""

    def __init__(self) -> None:
        self.placed = True
        self.is_up = True
        self.now = 0.0
        self.asked = 0
        app = FastAPI()
        caller = JobCaller(identity=JOB, tokens=TOKENS)
        agent_identities_router(
            lambda node, container: caller if self.placed and (node, container) == (NODE, CONTAINER) else None
        ).add_to(app)
        install_error_handlers(app)
        app.add_middleware(AgentGate, tokens=AGENTS, is_active=lambda: True)
        service, machine = TestClient(app), self

        class Wire(httpx.BaseTransport):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                machine.asked += 1
                if not machine.is_up:
                    raise httpx.ConnectError("the service is away")
                answer = service.post(request.url.path, content=request.read(), headers=dict(request.headers))
                return httpx.Response(answer.status_code, content=answer.content, request=request)

        self.client = ServiceClient("http://service", AGENTS.of(NODE), NODE, Wire())
        self.metadata = self.start_agent()

    def start_agent(self) -> Any:
        addresses = ReplicaAddresses("/socket", "service=s", Engine())
        return create_metadata_app(ReplicaCallers(addresses, self.client, lambda: self.now, self.sleep).at)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def come_back(self) -> None:
        self.is_up = True
        # The client leaves a service alone for a moment that has not answered.
        self.client._paused_until = 0.0

    def get(self, path: str, source: str = ADDRESS, **headers: str) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.metadata, client=(source, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://machine") as client:
                return await client.get(path, headers=HEADER)

        return asyncio.run(send())

    def token(self) -> tuple[str, int]:
        body = self.get(f"{ACCOUNT}/token").json()
        return body["access_token"], body["expires_in"]


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_replica_is_its_jobs_account(machine: Machine) -> None:
    assert machine.get("/computeMetadata/v1/project/project-id").text == "demo"
    assert machine.get("/computeMetadata/v1/instance/name").text == "a_job"
    assert machine.get(f"{ACCOUNT}/email").text == EMAIL
    token, seconds = machine.token()
    assert Authenticator({}, TOKENS).caller_of(token).principal == f"serviceAccount:{EMAIL}"
    assert seconds == 3600


def test_who_is_no_replica_costs_the_service_nothing(machine: Machine) -> None:
    assert machine.get(f"{ACCOUNT}/token", source="172.18.0.9").status_code == 403
    assert machine.asked == 0


def test_a_container_that_the_service_does_not_know_gets_nothing(machine: Machine) -> None:
    machine.placed = False

    answer = machine.get(f"{ACCOUNT}/token")

    assert (answer.status_code, answer.text) == (
        503,
        "the training service knows of no such replica of a job that runs; ask again\n",
    )
    assert 2 < machine.now < 3


def test_a_container_may_ask_before_the_manager_has_heard_of_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.placed = False

    def hear(seconds: float) -> None:
        machine.now += seconds
        machine.placed = machine.now > 1

    monkeypatch.setattr(machine, "sleep", hear)
    machine.metadata = machine.start_agent()

    assert machine.get(f"{ACCOUNT}/email").text == EMAIL


def test_a_token_is_kept_while_it_is_valid_and_renewed_before_its_end(machine: Machine) -> None:
    first, _ = machine.token()
    asked = machine.asked
    machine.now += 2990
    assert machine.token() == (first, 610)
    assert machine.asked == asked
    machine.now += 20

    second, seconds = machine.token()

    assert second != first
    assert seconds == 3600


def test_a_service_that_is_away_takes_no_token_that_is_valid_and_gives_none_after_that(
    machine: Machine,
) -> None:
    first, _ = machine.token()
    machine.is_up = False
    machine.now += 3500
    assert machine.token() == (first, 100)
    assert machine.get(f"{ACCOUNT}/email").text == EMAIL
    assert machine.get(f"{ACCOUNT}/identity?audience=x").status_code == 503
    machine.now += 100
    assert machine.get(f"{ACCOUNT}/token").status_code == 503
    machine.come_back()

    assert machine.token()[0] != first


def test_a_trainer_finds_the_endpoint_though_the_service_is_away(machine: Machine) -> None:
    machine.is_up = False

    assert machine.get("/").text == "computeMetadata/\n"
    answer = machine.get(f"{ACCOUNT}/email")
    assert (answer.status_code, answer.text) == (503, "the training service does not answer; ask again\n")


def test_an_identity_token_is_made_for_each_question(machine: Machine) -> None:
    found = {machine.get(f"{ACCOUNT}/identity?audience=https://x").text for _ in range(2)}

    assert len(found) == 2


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "non-empty audience"),
        ("?audience=", "non-empty audience"),
        (f"?audience={'x' * 50_000}", "non-empty audience"),
        (f"?audience={SERVICE}", "reserved"),
    ],
)
def test_an_audience_that_nobody_gets_a_token_for_holds_up_no_other_trainer(
    machine: Machine, query: str, words: str
) -> None:
    answer = machine.get(f"{ACCOUNT}/identity{query}")

    assert answer.status_code == 400
    assert words in answer.text
    assert machine.get(f"{ACCOUNT}/token").status_code == 200
