"""Policies of buckets in the form of Cloud Storage's JSON API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

IAM = "/storage/v1/b/team-data/iam"
READER = {"role": "roles/storage.objectViewer", "members": ["user:ann@example.com"]}


def reason(answer: Any) -> tuple[int, str]:
    error = answer.json()["error"]
    (cause,) = error["errors"]
    assert (error["code"], cause["message"]) == (answer.status_code, error["message"])
    return answer.status_code, cause["reason"]


def test_a_policy_names_its_bucket_and_is_read_back(http: TestClient) -> None:
    written = http.put(IAM, json={"bindings": [READER]}).raise_for_status().json()

    assert written["resourceId"] == "projects/_/buckets/team-data"
    assert written["kind"] == "storage#policy"
    assert http.get(IAM).json() == written
    assert "bindings" not in http.get("/storage/v1/b/other-data/iam").json()


def test_a_stale_etag_is_a_condition_that_is_not_met(http: TestClient) -> None:
    etag = http.get(IAM).json()["etag"]
    http.put(IAM, json={"bindings": [READER], "etag": etag}).raise_for_status()

    assert reason(http.put(IAM, json={"bindings": [], "etag": etag})) == (412, "conditionNotMet")
    assert http.get(IAM).json()["bindings"] == [READER]


def test_the_permissions_of_the_caller_are_told_once_each(http: TestClient) -> None:
    names = ["storage.objects.get", "storage.objects.list", "storage.objects.get"]

    answer = http.get(f"{IAM}/testPermissions", params={"permissions": names})

    assert answer.json() == {"kind": "storage#testIamPermissionsResponse", "permissions": names[:2]}


@pytest.mark.parametrize("bucket", ["ab", "Team", "-team", "team_", "team%2Fdata", "a" * 223])
def test_a_name_that_no_bucket_can_have_is_refused(http: TestClient, bucket: str) -> None:
    assert http.get(f"/storage/v1/b/{bucket}/iam").status_code in (400, 404)


def test_permissions_of_another_api_are_refused(http: TestClient) -> None:
    answer = http.get(f"{IAM}/testPermissions", params={"permissions": "ml.jobs.get"})

    assert reason(answer) == (400, "invalid")


def test_conditions_are_shown_to_who_understands_them(http: TestClient) -> None:
    conditional = {**READER, "condition": {"expression": "true"}}
    http.put(IAM, json={"bindings": [conditional], "version": 3}).raise_for_status()

    assert reason(http.get(IAM)) == (400, "invalid")
    shown = http.get(IAM, params={"optionsRequestedPolicyVersion": 3}).json()
    assert shown["bindings"] == [conditional]


def test_who_is_nobody_is_told_so_in_the_same_form(serve: Callable[..., TestClient], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"principals": []}')
    tokens.chmod(0o600)

    answer = serve(require_auth=True, tokens_file=tokens).get(IAM)

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
