"""The audit log: who did what, who was refused, and nothing of what was sent."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from training_service.api.middleware.audit_log import AuditLog
from training_service.store.audit_store import AuditEntry, AuditStore
from training_service.store.database import open_database

ADMIN, ANN = "token-of-the-administrator", "token-of-ann-0123456789"
PARENT = "/v1/projects/demo-project/jobs"
JOB = {"jobId": "a_job", "trainingInput": {"masterConfig": {"imageUri": "registry.test/demo-project/t:1"}}}
LOG = "projects/demo-project/logs/cloudaudit.googleapis.com%2Factivity"
SERVICE = "google.cloud.ml.v1.JobService"


@pytest.fixture
def guarded(serve: Callable[..., TestClient], tmp_path: Path) -> TestClient:
    """A client of a service that wants tokens."""
    file = tmp_path / "tokens.json"
    principals = [
        {"principal": "user:admin@example.com", "token": ADMIN, "admin": True},
        {"principal": "user:ann@example.com", "token": ANN},
    ]
    file.touch(0o600)
    file.write_text(json.dumps({"principals": principals}))
    return serve(require_auth=True, tokens_file=file)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def entries(http: TestClient, project: str = "demo-project", **options: Any) -> list[dict[str, Any]]:
    body = {"resourceNames": [f"projects/{project}"], "filter": 'logName:"cloudaudit.googleapis.com"'}
    answer = http.post("/v2/entries:list", json={**body, **options}, headers=bearer(ADMIN))
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json().get("entries", [])
    return found


def summary(entry: dict[str, Any]) -> tuple[str, str, str, int]:
    payload = entry["protoPayload"]
    who = payload["authenticationInfo"].get("principalSubject", "")
    return who, payload["methodName"], payload["resourceName"], payload["status"].get("code", 0)


def test_a_change_says_who_did_it(guarded: TestClient) -> None:
    guarded.post(PARENT, json=JOB, headers=bearer(ADMIN)).raise_for_status()
    guarded.patch(f"{PARENT}/a_job?updateMask=labels", json={"labels": {"a": "b"}}, headers=bearer(ADMIN))
    guarded.post(f"{PARENT}/a_job:cancel", json={}, headers=bearer(ADMIN))
    guarded.post(f"{PARENT}/none:cancel", json={}, headers=bearer(ADMIN))
    guarded.post("/v1/projects/demo-project:setIamPolicy", json={"policy": {}}, headers=bearer(ADMIN))

    found, job = entries(guarded), "projects/demo-project/jobs/a_job"

    who = "user:admin@example.com"
    assert [summary(entry) for entry in found] == [
        (who, f"{SERVICE}.CreateJob", job, 0),
        (who, f"{SERVICE}.UpdateJob", job, 0),
        (who, f"{SERVICE}.CancelJob", job, 0),
        (who, f"{SERVICE}.CancelJob", "projects/demo-project/jobs/none", 5),
        (who, "SetIamPolicy", "projects/demo-project", 0),
    ]
    first = found[0]
    assert first["logName"] == LOG
    assert first["severity"] == "NOTICE"
    assert found[3]["severity"] == "ERROR"
    assert first["resource"]["type"] == "audited_resource"
    assert first["protoPayload"] == {
        "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
        "serviceName": "ml.googleapis.com",
        "methodName": f"{SERVICE}.CreateJob",
        "resourceName": job,
        "authenticationInfo": {"principalEmail": "admin@example.com", "principalSubject": who},
        "requestMetadata": {"callerIp": "testclient"},
        "status": {},
        "authorizationInfo": [{"resource": job, "permission": "ml.jobs.create", "granted": True}],
    }


def test_a_refusal_says_who_was_refused(guarded: TestClient) -> None:
    guarded.get(PARENT)
    guarded.get(f"{PARENT}/a_job", headers=bearer("token-of-nobody-01234567"))
    guarded.get(PARENT, headers=bearer(ANN))
    guarded.post(PARENT, json=JOB, headers=bearer(ANN))

    assert [summary(entry) for entry in entries(guarded)] == [
        ("", "GET", PARENT, 16),
        ("", "GET", f"{PARENT}/a_job", 16),
        ("user:ann@example.com", f"{SERVICE}.ListJobs", "projects/demo-project", 7),
        ("user:ann@example.com", f"{SERVICE}.CreateJob", "projects/demo-project", 7),
    ]


def test_an_anonymous_change_of_an_open_service_is_noted(http: TestClient) -> None:
    http.post(PARENT, json=JOB).raise_for_status()

    assert [summary(entry)[:2] for entry in entries(http)] == [("", f"{SERVICE}.CreateJob")]


def test_pushes_and_refused_pulls_of_images_are_noted(guarded: TestClient) -> None:
    def ask(token: str, scope: str) -> None:
        login = base64.b64encode(f"oauth2accesstoken:{token}".encode()).decode()
        query = {"service": "training-registry", "scope": f"repository:demo-project/images/a:{scope}"}
        guarded.get("/registry/token", params=query, headers={"authorization": f"Basic {login}"})

    ask(ADMIN, "pull")
    ask(ADMIN, "pull,push")
    ask(ANN, "pull,push")

    repository = "projects/demo-project/locations/local/repositories/images"
    verb = "artifactregistry.repositories"
    assert [summary(entry) for entry in entries(guarded)] == [
        ("user:admin@example.com", f"{verb}.uploadArtifacts", repository, 0),
        ("user:ann@example.com", f"{verb}.downloadArtifacts", repository, 7),
    ]


def test_what_a_container_may_not_do_with_an_object_is_noted(http: TestClient) -> None:
    asked = {"address": "10.0.0.1", "permission": "storage.objects.delete", "bucket": "b", "object": "o"}
    assert http.post("/ops/v1/objects:checkAccess", json=asked).json()["allowed"] is False

    (entry,) = entries(http, "_")

    assert summary(entry) == ("", "storage.objects.delete", "projects/_/buckets/b/objects/o", 7)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", PARENT),
        ("GET", "/health"),
        ("POST", "/v2/entries:list"),
        ("POST", "/ops/v1/projects/demo-project/jobs:search"),
        ("POST", "/v1/projects/demo-project:testIamPermissions"),
        ("POST", "/v1/projects/demo-project:getIamPolicy"),
        ("GET", "/nothing"),
        ("POST", "/nothing"),
    ],
)
def test_a_read_is_not_noted(http: TestClient, method: str, path: str) -> None:
    http.request(method, path, json={})

    assert entries(http) + entries(http, "_") == []


def test_it_is_read_by_those_who_may_read_logs_only(guarded: TestClient) -> None:
    body = {"resourceNames": ["projects/demo-project"], "filter": f'logName="{LOG}"'}

    assert guarded.post("/v2/entries:list", json=body, headers=bearer(ANN)).status_code == 403
    elsewhere = {**body, "resourceNames": ["projects/_"]}
    assert guarded.post("/v2/entries:list", json=elsewhere, headers=bearer(ANN)).status_code == 403


def test_the_logs_of_jobs_do_not_have_it(http: TestClient) -> None:
    http.post(PARENT, json=JOB).raise_for_status()

    listed = http.post("/v2/entries:list", json={"resourceNames": ["projects/demo-project"]}).json()

    assert [entry for entry in listed.get("entries", []) if "protoPayload" in entry] == []


def test_nothing_that_was_sent_is_noted(guarded: TestClient) -> None:
    env = {"containerArgs": ["--password=in-the-body"], "imageUri": "registry.test/demo-project/t:1"}
    job = {"jobId": "a_job", "trainingInput": {"masterConfig": env}, "labels": {"a": "in-the-body"}}
    headers = {**bearer(ADMIN), "user-agent": "in-a-header", "x-odd": "in-a-header"}

    guarded.post(f"{PARENT}?key=in-the-query", json=job, headers=headers).raise_for_status()
    guarded.post(PARENT, json=job, headers={**headers, "authorization": "Bearer in-a-header-0123456"})
    login = base64.b64encode(b"user:in-a-header").decode()
    guarded.get("/registry/token?service=training-registry", headers={"authorization": f"Basic {login}"})

    found = entries(guarded) + entries(guarded, "_")
    assert len(found) == 3
    text = json.dumps(found)
    assert [secret for secret in ("in-the", "in-a", ADMIN) if secret in text] == []


def test_a_line_break_forges_no_entry(http: TestClient) -> None:
    headers = {"origin": "http://evil.example"}
    http.get("/v1/projects/demo-project/jobs/a%0A%7B%22forged%22:1%7D", headers=headers)
    http.post(PARENT, json=JOB | {"jobId": "a\nb" * 1000})

    refused, created = entries(http)

    assert refused["protoPayload"]["resourceName"] == f"{PARENT}/a%0A%7B%22forged%22:1%7D"
    assert len(created["protoPayload"]["resourceName"]) == 512
    assert "\n" not in json.dumps([refused, created])


def test_a_full_disk_stops_no_request(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_: AuditStore, __: AuditEntry) -> None:
        raise sa.exc.OperationalError("INSERT", {}, Exception("database or disk is full"))

    monkeypatch.setattr(AuditStore, "append", full)

    assert http.post(PARENT, json=JOB).status_code == 200
    assert http.get(PARENT, headers={"origin": "http://evil.example"}).status_code == 403
    assert capsys.readouterr().out.count("not in the audit log") == 2


def test_strangers_cannot_fill_it(http: TestClient) -> None:
    for _ in range(150):
        http.get(PARENT, headers={"origin": "http://evil.example"})
    http.post(PARENT, json=JOB).raise_for_status()

    found = entries(http, pageSize=1000)

    assert 120 <= len(found) < 140
    assert summary(found[-1])[1] == f"{SERVICE}.CreateJob"


def test_what_was_dropped_is_counted(tmp_path: Path) -> None:
    now = [0.0]
    store = AuditStore(open_database(f"sqlite:///{tmp_path / 'jobs.db'}"))

    async def app(*_: object) -> None:
        raise AssertionError

    log = AuditLog(app, store, clock=lambda: now[0])
    taken = [log._failures.take() for _ in range(123)]
    now[0] += 1.0

    assert taken[119:] == [0, None, None, None]
    assert log._failures.take() == 3


def test_it_is_read_in_pages_and_by_fields(http: TestClient) -> None:
    for number in range(5):
        http.post(PARENT, json=JOB | {"jobId": f"job_{number}"}).raise_for_status()
    wanted = f'logName="{LOG}" AND protoPayload.resourceName:"job_3" AND severity=NOTICE'
    body = {"resourceNames": ["projects/demo-project"], "filter": f'logName="{LOG}"', "pageSize": 2}

    pages, token = [], ""
    while len(pages) < 3:
        page = http.post("/v2/entries:list", json={**body, "pageToken": token, "orderBy": "timestamp desc"})
        pages.append([entry["protoPayload"]["resourceName"][-1] for entry in page.json()["entries"]])
        token = page.json().get("nextPageToken", "")

    assert (pages, token) == ([["4", "3"], ["2", "1"], ["0"]], "")
    assert len(entries(http, filter=wanted)) == 1
    refused = http.post("/v2/entries:list", json={**body, "pageToken": "x"})
    assert refused.status_code == 400
