"""What agents are told of the replicas on their machines."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from training_api.errors import EngineUnavailable
from training_service.access.agent_token import AgentTokens
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.signing_key import SigningKey
from training_service.agent.wire import IDENTIFY, ISSUE
from training_service.api.agents.identities import agent_identities_router
from training_service.api.errors import install_error_handlers
from training_service.api.middleware.agent_gate import AgentGate
from training_service.metadata.issuing import JobCaller
from training_service.metadata.tree import JobIdentity

EMAIL = "trainer@demo.iam.gserviceaccount.com"
TOKENS = IdentityTokens(SigningKey.generate())
JOB = JobIdentity(project="demo", number=12, email=EMAIL, job_id="job", job_uid="0a")
HERE = {"node": "n1", "containerId": "container"}
AGENTS = AgentTokens(SigningKey.generate())


def find(machine: str, container_id: str) -> JobCaller | None:
    if machine == "silent":
        raise EngineUnavailable("the manager does not answer")
    return JobCaller(identity=JOB, tokens=TOKENS) if (machine, container_id) == ("n1", "container") else None


def client_of(machine: str) -> TestClient:
    app = FastAPI()
    agent_identities_router(find).add_to(app)
    install_error_handlers(app)
    app.add_middleware(AgentGate, tokens=AGENTS, is_active=lambda: True)
    return TestClient(app, headers={"Authorization": f"Bearer {AGENTS.of(machine)}"})


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of("n1")


def test_a_replica_is_its_job(client: TestClient) -> None:
    assert client.post(IDENTIFY, json=HERE).json() == {
        "project": "demo",
        "number": "12",
        "email": EMAIL,
        "jobId": "job",
        "jobUid": "0a",
        "region": "us-central1",
    }


def test_a_token_is_its_accounts_and_kept_by_nobody_on_the_way(client: TestClient) -> None:
    answer = client.post(ISSUE, json=HERE)

    caller = Authenticator({}, TOKENS).caller_of(answer.json()["token"])
    assert (caller.principal, answer.json()["seconds"]) == (f"serviceAccount:{EMAIL}", "3600")
    assert answer.headers["Cache-Control"] == "no-store"


def test_why_an_audience_gets_no_token_is_an_answer(client: TestClient) -> None:
    answer = client.post(ISSUE, json=HERE | {"audience": ""})

    assert (answer.status_code, answer.json()["token"]) == (200, "")
    assert "non-empty" in answer.json()["refusal"]


@pytest.mark.parametrize("path", [IDENTIFY, ISSUE])
@pytest.mark.parametrize(
    ("machine", "changes", "status"),
    [
        ("n2", {"node": "n2"}, 404),
        ("n1", {"containerId": "other"}, 404),
        ("silent", {"node": "silent"}, 503),
        ("n1", {"containerId": 1}, 400),
        # An agent gets no tokens for jobs on another machine.
        ("n2", {}, 403),
    ],
)
def test_nothing_is_told_of_what_is_not_known_on_the_machine(
    path: str, machine: str, changes: dict[str, object], status: int
) -> None:
    answer = client_of(machine).post(path, json=HERE | changes)

    assert answer.status_code == status
    assert "token" not in answer.json()
