"""Setting faults: which mean something, and who may."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

ADMIN, OWNER = "admin-token-of-some-length", "owner-token-of-some-length"
_STOCK_OUT = {"kind": "stockOut"}


@pytest.fixture
def faulty(serve: Callable[..., TestClient]) -> TestClient:
    """A service in which faults can be set."""
    return serve(fault_injection=True)


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        ({"kind": "error"}, "code"),
        ({"kind": "error", "code": 200}, "code"),
        ({"kind": "delay"}, "seconds"),
        ({"kind": "delay", "seconds": -1}, "seconds"),
        ({"kind": "stockOut", "seconds": 3}, "seconds"),
        ({"kind": "stockOut", "times": 3}, "times"),
        ({"kind": "drop", "methods": ["jobs.delete"]}, "methods"),
        ({"kind": "flood"}, "kind"),
        ({"kind": "drop", "chance": 1}, "chance"),
    ],
)
def test_what_means_nothing_is_refused_by_its_field(
    faulty: TestClient, fault: dict[str, Any], field: str
) -> None:
    answer = faulty.post("/faults", json=fault)

    assert answer.status_code == 400
    (violation,) = answer.json()["error"]["details"][0]["fieldViolations"]
    assert violation["field"] == field


def test_a_fault_that_is_not_set_cannot_be_removed(faulty: TestClient) -> None:
    assert faulty.delete("/faults/nothing").status_code == 404


def test_faults_are_listed_with_how_often_they_happened_and_can_be_removed_one_by_one(
    faulty: TestClient,
) -> None:
    set_ones = [
        faulty.post("/faults", json={"kind": "error", "code": code, "times": 1}).json() for code in (500, 503)
    ]
    faulty.get("/v1/projects/demo/jobs")
    faulty.delete(f"/faults/{set_ones[1]['id']}").raise_for_status()

    (left,) = faulty.get("/faults").json()["faults"]

    assert (left["id"], left["happened"], left["isOver"]) == (set_ones[0]["id"], 1, True)
    assert faulty.delete("/faults").json() == {}
    assert faulty.get("/faults").json() == {"faults": []}


def test_without_the_setting_nothing_can_be_set(http: TestClient) -> None:
    assert http.post("/faults", json=_STOCK_OUT).status_code == 404


def test_only_an_administrator_may_set_a_fault(serve: Callable[..., TestClient], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    principals = [
        {"principal": "user:admin@example.com", "admin": True, "token": ADMIN},
        {"principal": "user:owner@example.com", "owns": ["demo-project"], "token": OWNER},
    ]
    tokens.write_text(json.dumps({"principals": principals}))
    tokens.chmod(0o600)
    http = serve(fault_injection=True, require_auth=True, tokens_file=tokens)
    answers = {}
    for token in ("", OWNER, ADMIN):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for method in ("POST", "GET", "DELETE"):
            body = {"json": _STOCK_OUT} if method == "POST" else {}
            answers[token, method] = http.request(method, "/faults", headers=headers, **body).status_code

    assert [answers["", method] for method in ("POST", "GET", "DELETE")] == [401] * 3
    assert [answers[OWNER, method] for method in ("POST", "GET", "DELETE")] == [403] * 3
    assert [answers[ADMIN, method] for method in ("POST", "GET", "DELETE")] == [200] * 3
