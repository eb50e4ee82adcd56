"""What agents are told of the replicas on their machines."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from training_api.errors import EngineUnavailable
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.signing_key import SigningKey
from training_service.agent.wire import IDENTIFY, ISSUE
from training_service.api.agents.identities import agent_identities_router
from training_service.api.errors import install_error_handlers
from training_service.metadata.issuing import JobCaller
from training_service.metadata.tree import JobIdentity

EMAIL = "trainer@demo.iam.gserviceaccount.com"
TOKENS = IdentityTokens(SigningKey.generate())
JOB = JobIdentity(project="demo", number=12, email=EMAIL, job_id="job", job_uid="0a")
HERE = {"node": "n1", "containerId": "container"}


def find(machine: str, container_id: str) -> JobCaller | None:
    if machine == "silent":
        raise EngineUnavailable("the manager does not answer")
    return JobCaller(identity=JOB, tokens=TOKENS) if (machine, container_id) == ("n1", "container") else None


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    agent_identities_router(find).add_to(app)
    install_error_handlers(app)
    return TestClient(app)


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
    ("changes", "status"),
    [({"node": "n2"}, 404), ({"containerId": "other"}, 404), ({"node": "silent"}, 503), ({"more": 1}, 400)],
)
def test_nothing_is_told_of_what_is_not_known_on_the_machine(
    client: TestClient, path: str, changes: dict[str, object], status: int
) -> None:
    answer = client.post(path, json=HERE | changes)

    assert answer.status_code == status
    assert "token" not in answer.json()
