"""``entries:list``: whose lines are asked for, in which order, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

JOBS = "/v1/projects/demo/jobs"


def ask(http: TestClient, **body: Any) -> Any:
    return http.post("/v2/entries:list", json={"resourceNames": ["projects/demo"]} | body).json()


def keys(answer: Any) -> list[str]:
    return [entry["insertId"] for entry in answer.get("entries", [])]


@pytest.fixture
def lines(http: TestClient) -> list[str]:
    """The keys of the lines of three jobs, oldest first."""
    for number in range(3):
        body = {
            "jobId": f"job_{number}",
            "trainingInput": {"masterConfig": {"imageUri": "registry.test/p/i:1"}},
        }
        http.post(JOBS, json=body).raise_for_status()
        http.post(f"{JOBS}/job_{number}:cancel").raise_for_status()
    found = keys(ask(http, pageSize=1000))
    assert len(found) >= 3
    return found


@pytest.mark.parametrize(
    "names",
    [
        {"resourceNames": ["projects/demo"]},
        {"resourceNames": [], "projectIds": ["demo"]},
        {"resourceNames": ["projects/demo/locations/global/buckets/b/views/v"]},
        {"resourceNames": ["projects/demo"], "projectIds": ["demo", "other"]},
    ],
)
def test_a_project_may_be_named_in_either_way(
    http: TestClient, lines: list[str], names: dict[str, Any]
) -> None:
    assert keys(ask(http, **names, pageSize=1000)) == lines


def test_another_project_has_none_of_its_lines(http: TestClient, lines: list[str]) -> None:
    assert ask(http, resourceNames=["projects/other"]) == {}


def test_the_newest_lines_come_first_where_that_is_asked_for(http: TestClient, lines: list[str]) -> None:
    assert keys(ask(http, orderBy="timestamp desc", pageSize=1000)) == lines[::-1]


@pytest.mark.parametrize("size", [1, 2])
def test_the_pages_together_are_all_lines_once(http: TestClient, lines: list[str], size: int) -> None:
    answer = ask(http, pageSize=size)
    found = keys(answer)
    while token := answer.get("nextPageToken"):
        answer = ask(http, pageSize=size, pageToken=token)
        found += keys(answer)

    assert found == lines


@pytest.mark.parametrize("size", [0, 10**6])
def test_a_page_of_no_size_has_fifty_lines_and_none_has_more_than_a_thousand(
    http: TestClient, lines: list[str], size: int
) -> None:
    assert keys(ask(http, pageSize=size)) == lines[:50]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"resourceNames": []}, "resourceNames"),
        ({"resourceNames": ["folders/1"]}, "resourceNames"),
        ({"resourceNames": ["projects/"]}, "resourceNames"),
        ({"resourceNames": ["projects/\x00"]}, "resourceNames"),
        ({"resourceNames": ["projects/demo"] * 101}, "resourceNames"),
        ({"pageSize": -1}, "pageSize"),
        ({"pageToken": "x"}, "pageToken"),
        ({"orderBy": "size"}, "orderBy"),
        ({"orderBy": "timestamp DESC"}, "orderBy"),
        ({"filter": "("}, "filter"),
        ({"limit": 3}, "limit"),
    ],
)
def test_a_bad_question_is_refused_by_its_field(http: TestClient, body: dict[str, Any], field: str) -> None:
    error = ask(http, **body)["error"]

    assert (error["code"], error["details"][0]["fieldViolations"][0]["field"]) == (400, field)
