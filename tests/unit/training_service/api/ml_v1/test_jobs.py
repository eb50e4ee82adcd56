"""``projects.jobs`` and ``projects.getConfig``: what routes read of a request, and answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from training_service.access.secret_store import SecretStore

JOBS = "/v1/projects/demo/jobs"
OWNER, OTHER = "owner-token-of-some-length", "other-token-of-some-length"


def make_body(job_id: str = "job", **training: Any) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "trainingInput": {"masterConfig": {"imageUri": "registry.test/p/i:1"}, **training},
    }


def test_a_job_is_submitted_and_read_back(http: TestClient) -> None:
    created = http.post(JOBS, json=make_body(workerType="", workerCount="0")).raise_for_status().json()

    assert created["state"] == "QUEUED"
    assert created["trainingInput"]["workerCount"] == "0"
    assert http.get(f"{JOBS}/job").json() == created


def test_the_service_agent_is_that_of_the_project(http: TestClient) -> None:
    one, other = (http.get(f"/v1/projects/{project}:getConfig").json() for project in ("demo", "other"))

    assert one["serviceAccount"] != other["serviceAccount"]
    assert one["serviceAccount"].startswith(f"service-{one['serviceAccountProject']}@")


def test_jobs_are_listed_newest_first_in_pages(http: TestClient) -> None:
    for number in range(3):
        http.post(JOBS, json=make_body(f"job_{number}")).raise_for_status()

    first = http.get(JOBS, params={"pageSize": 2}).json()
    second = http.get(JOBS, params={"pageSize": 2, "pageToken": first["nextPageToken"]}).json()

    assert [job["jobId"] for job in first["jobs"]] == ["job_2", "job_1"]
    assert [job["jobId"] for job in second["jobs"]] == ["job_0"]
    assert "nextPageToken" not in second
    assert http.get(JOBS, params={"filter": "state=SUCCEEDED"}).json() == {}


@pytest.mark.parametrize("name", ["updateMask", "update_mask"])
def test_a_mask_may_be_written_in_either_spelling(http: TestClient, name: str) -> None:
    http.post(JOBS, json=make_body())

    patched = http.patch(f"{JOBS}/job", params={name: "labels"}, json={"labels": {"env": "dev"}})

    assert patched.raise_for_status().json()["labels"] == {"env": "dev"}


@pytest.mark.parametrize("body", [None, {}])
def test_a_cancel_needs_no_body_and_may_be_repeated(http: TestClient, body: dict[str, Any] | None) -> None:
    http.post(JOBS, json=make_body())

    for _ in range(2):
        assert http.post(f"{JOBS}/job:cancel", json=body).raise_for_status().json() == {}

    assert http.get(f"{JOBS}/job").json()["state"] in ("CANCELLING", "CANCELLED")


def test_a_cancel_has_no_fields(http: TestClient) -> None:
    http.post(JOBS, json=make_body())

    answer = http.post(f"{JOBS}/job:cancel", json={"force": True})

    assert (answer.status_code, answer.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert http.get(f"{JOBS}/job").json()["state"] == "QUEUED"


@pytest.fixture
def guarded(serve: Callable[..., TestClient], tmp_path: Path) -> TestClient:
    """A service that wants tokens; ``OWNER`` owns the project ``demo``."""
    tokens = tmp_path / "tokens.json"
    principals = [
        {"principal": "user:owner@example.com", "token": OWNER, "owns": ["demo"]},
        {"principal": "user:other@example.com", "token": OTHER},
    ]
    tokens.write_text(json.dumps({"principals": principals}))
    tokens.chmod(0o600)
    return serve(require_auth=True, tokens_file=tokens)


def test_a_job_belongs_to_who_submitted_it(guarded: TestClient) -> None:
    bearer = {"Authorization": f"Bearer {OWNER}"}
    guarded.post(JOBS, json=make_body(), headers=bearer).raise_for_status()

    policy = guarded.get(f"{JOBS}/job:getIamPolicy", headers=bearer).json()

    assert policy["bindings"] == [{"role": "roles/ml.jobOwner", "members": ["user:owner@example.com"]}]
    assert guarded.get(f"{JOBS}/job", headers={"Authorization": f"Bearer {OTHER}"}).status_code == 403


def test_a_job_runs_as_an_account_only_for_who_may_act_as_it(guarded: TestClient) -> None:
    body = make_body(serviceAccount="sa@other.iam.gserviceaccount.com")

    answer = guarded.post(JOBS, json=body, headers={"Authorization": f"Bearer {OWNER}"})

    assert answer.status_code == 403
    assert "iam.serviceAccounts.actAs" in answer.json()["error"]["message"]


SECRET = {"labels": {"secret-key": "api_key"}}


@pytest.fixture
def with_secret(tmp_path: Path) -> Path:
    """A store that has the secret ``key`` of the project ``demo``."""
    SecretStore(tmp_path / "secrets").put("demo", "key", b"a-value-that-nobody-shows")
    return tmp_path / "secrets"


def test_an_open_service_lets_those_of_its_tokens_file_alone_name_a_secret(
    serve: Callable[..., TestClient], tmp_path: Path, with_secret: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    principals = [{"principal": "user:owner@example.com", "token": OWNER, "owns": ["demo"]}]
    tokens.write_text(json.dumps({"principals": principals}))
    tokens.chmod(0o600)
    http = serve(tokens_file=tokens, secrets_dir=with_secret)
    owner = {"Authorization": f"Bearer {OWNER}"}

    refused = http.post(JOBS, json=make_body() | SECRET)
    absent = http.post(JOBS, json=make_body() | {"labels": {"secret-absent": ""}}, headers=owner)
    created = http.post(JOBS, json=make_body() | SECRET, headers=owner)

    assert (refused.status_code, absent.status_code, created.status_code) == (403, 400, 200)
    assert "'secretmanager.versions.access' denied on resource 'projects/demo'" in refused.text
    assert "has no secret 'absent'" in absent.text
    assert "a-value-that-nobody-shows" not in created.text + absent.text + refused.text


def test_who_may_create_jobs_may_not_yet_name_a_secret(
    serve: Callable[..., TestClient], tmp_path: Path, with_secret: Path
) -> None:
    tokens = tmp_path / "tokens.json"
    principals = [
        {"principal": "user:owner@example.com", "token": OWNER, "owns": ["demo"]},
        {"principal": "user:other@example.com", "token": OTHER},
    ]
    tokens.write_text(json.dumps({"principals": principals}))
    tokens.chmod(0o600)
    http = serve(require_auth=True, tokens_file=tokens, secrets_dir=with_secret)
    owner, other = ({"Authorization": f"Bearer {token}"} for token in (OWNER, OTHER))

    def grant(*roles: str) -> None:
        bindings = [{"role": role, "members": ["user:other@example.com"]} for role in roles]
        http.post(
            "/v1/projects/demo:setIamPolicy", json={"policy": {"bindings": bindings}}, headers=owner
        ).raise_for_status()

    grant("roles/ml.developer")
    without = http.post(JOBS, json=make_body() | SECRET, headers=other)
    plain = http.post(JOBS, json=make_body("plain"), headers=other)
    grant("roles/ml.developer", "roles/secretmanager.secretAccessor")
    granted = http.post(JOBS, json=make_body() | SECRET, headers=other)

    assert (without.status_code, plain.status_code, granted.status_code) == (403, 200, 200)
    assert "secretmanager.versions.access" in without.text


@pytest.mark.parametrize("variable", ["tf_config", "storage_emulator_host", "gce_metadata_host"])
def test_a_secret_replaces_no_variable_of_the_service(
    serve: Callable[..., TestClient], with_secret: Path, variable: str
) -> None:
    http = serve(secrets_dir=with_secret, container_env={"STORAGE_EMULATOR_HOST": "http://store.test"})

    answer = http.post(JOBS, json=make_body() | {"labels": {"secret-key": variable}})

    assert answer.status_code == 400
    assert f"the service itself sets {variable.upper()}" in answer.text
