"""The audit log: changes and refusals, and nothing of what was sent."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

PARENT = "/v1/projects/demo-project/jobs"


def audited(http: TestClient, method: str, path: str, **options: Any) -> list[tuple[str, str, int]]:
    with capture_logs() as log:
        http.request(method, path, **options)
    lines = [line for line in log if line["event"] == "audit"]
    assert all(line["principal"] == "anonymous" and line["address"] for line in lines)
    return [(line["method"], line["resource"], line["status"]) for line in lines]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", PARENT, 400),
        ("POST", f"{PARENT}/job:cancel", 404),
        ("PATCH", f"{PARENT}/job", 400),
        ("POST", f"{PARENT}/job:setIamPolicy", 404),
        ("PUT", "/storage/v1/b/bucket/iam", 200),
    ],
)
def test_a_change_is_noted_with_its_answer(http: TestClient, method: str, path: str, status: int) -> None:
    assert audited(http, method, path, json={}) == [(method, path, status)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", PARENT),
        ("GET", "/health"),
        ("POST", "/v2/entries:list"),
        ("POST", "/ops/v1/projects/demo-project/jobs:search"),
        ("POST", "/ops/v1/objects:checkAccess"),
        ("POST", "/v1/projects/demo-project:testIamPermissions"),
        ("GET", "/nothing"),
    ],
)
def test_a_question_is_not_noted(http: TestClient, method: str, path: str) -> None:
    assert audited(http, method, path, json={}) == []


def test_a_refusal_is_noted(http: TestClient) -> None:
    headers = {"origin": "http://evil.example"}

    assert audited(http, "GET", PARENT, headers=headers) == [("GET", PARENT, 403)]


def test_a_path_cannot_forge_a_line(http: TestClient) -> None:
    headers = {"origin": "http://evil.example"}

    assert audited(http, "GET", "/a%0Ab", headers=headers) == [("GET", "/a%0Ab", 403)]


def test_nothing_that_was_sent_is_noted(http: TestClient) -> None:
    with capture_logs() as log:
        http.post(
            f"{PARENT}?key=in-the-query",
            json={"jobId": "in-the-body"},
            headers={"authorization": "Bearer in-a-header"},
        )

    assert len([line for line in log if line["event"] == "audit"]) == 1
    assert not [line for line in log for secret in ("in-the", "in-a") if secret in str(line)]
