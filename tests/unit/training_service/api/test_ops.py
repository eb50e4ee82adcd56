"""``/ops/v1``: what dashboards ask."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

JOBS = "/v1/projects/demo/jobs"
OPS = "/ops/v1/projects/demo"
HISTORY = {"windowSeconds": 3600, "stepSeconds": 60, "costStepSeconds": 60}


@pytest.fixture(autouse=True)
def job(http: TestClient) -> None:
    """One job, which waits."""
    body = {
        "jobId": "job",
        "labels": {"team": "a"},
        "trainingInput": {"masterConfig": {"imageUri": "h.test/p/i:1"}},
    }
    http.post(JOBS, json=body).raise_for_status()


def test_a_search_finds_rows_and_totals(http: TestClient) -> None:
    found = http.post(f"{OPS}/jobs:search", json={"filter": "labels.team=a"}).json()

    assert [row["jobId"] for row in found["jobs"]] == ["job"]
    assert (found["total"], found["states"]) == (1, {"QUEUED": 1})
    assert http.post(f"{OPS}/jobs:search", json={"dags": []}).json()["total"] == 0


@pytest.mark.parametrize("size", [0, 10**9])
def test_a_page_of_no_size_and_one_of_any_size_have_the_job(http: TestClient, size: int) -> None:
    found = http.post(f"{OPS}/jobs:search", json={"pageSize": size}).json()

    assert ([row["jobId"] for row in found["jobs"]], found["total"]) == (["job"], 1)


def test_another_project_has_jobs_of_its_own(http: TestClient) -> None:
    assert http.post("/ops/v1/projects/other/jobs:search", json={}).json()["total"] == 0


@pytest.mark.parametrize(
    ("what", "empty"), [("timeline", {"spans": []}), ("usage", {"series": []}), ("curves", {"curves": []})]
)
def test_a_job_that_has_not_begun_has_nothing_to_show(http: TestClient, what: str, empty: Any) -> None:
    assert http.get(f"{OPS}/jobs/job/{what}").json() == empty
    assert http.get(f"{OPS}/jobs/absent/{what}").status_code == 404
    assert http.get(f"/ops/v1/projects/other/jobs/job/{what}").status_code == 404


def test_the_fleet_has_a_queue(http: TestClient) -> None:
    fleet = http.get(f"{OPS}/fleet").json()

    assert fleet["queueLength"] == 1
    assert "oldestQueuedTime" in fleet


def test_the_history_has_the_job(http: TestClient) -> None:
    found = http.post(f"{OPS}/fleet:history", json=HISTORY).json()

    assert (found["jobs"], len(found["times"]), found["queue"]["now"]) == (1, 61, 1)
    assert http.post(f"{OPS}/fleet:history", json=HISTORY | {"dags": ["d"]}).json()["jobs"] == 0
    assert http.post("/ops/v1/projects/other/fleet:history", json=HISTORY).json()["jobs"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"windowSeconds": 10**9}, "windowSeconds"),
        ({"stepSeconds": 1}, "stepSeconds"),
        ({"costStepSeconds": 0}, "costStepSeconds"),
        ({"costLabel": 'a"b'}, "costLabel"),
        ({"prices": {"n1-standard-4": -1}}, "prices.n1-standard-4"),
        ({"dags": ["\x00"]}, "dags[0]"),
        ({"filter": "x"}, "filter"),
    ],
)
def test_a_history_that_cannot_be_told_is_refused_by_its_field(
    http: TestClient, body: Any, field: str
) -> None:
    error = http.post(f"{OPS}/fleet:history", json=HISTORY | body).json()["error"]

    assert error["code"] == 400
    assert error["details"][0]["fieldViolations"][0]["field"] == field


def test_the_version_is_another_one_after_a_change_only(http: TestClient) -> None:
    versions = [http.get(f"{OPS}/version").json()["version"] for _ in range(2)]
    http.post(f"{JOBS}/job:cancel")
    versions.append(http.get(f"{OPS}/version").json()["version"])

    assert versions[0] == versions[1] != versions[2]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"filter": "("}, "filter"),
        ({"pageSize": -1}, "pageSize"),
        ({"pageToken": "x"}, "pageToken"),
        ({"dags": ["\x00"]}, "dags[0]"),
        ({"state": "x"}, "state"),
    ],
)
def test_a_search_that_cannot_be_read_is_refused_by_its_field(
    http: TestClient, body: Any, field: str
) -> None:
    error = http.post(f"{OPS}/jobs:search", json=body).json()["error"]

    assert error["details"][0]["fieldViolations"][0]["field"] == field
