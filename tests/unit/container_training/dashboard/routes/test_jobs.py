"""
The list of jobs over HTTP, for somebody with some rights.

A test plays the service behind it.
"""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from tests.support.fakes.service_of_two_dags import ServiceOfTwoDags


def test_service_is_asked_for_the_jobs_of_readable_dags_only(
    client: TestClient, played: ServiceOfTwoDags
) -> None:
    answer = client.get("/api/jobs", params={"version": "a"}).json()

    assert [search["dags"] for search in played.searches] == [["mine"]]
    # Also a service that does not keep to the question shows nobody what is not theirs.
    assert [job["id"] for job in answer["jobs"]] == ["of_mine"]
    assert answer["jobs"][0]["canCancel"] is True
    assert answer["isAll"] is False


def test_dag_that_may_not_be_read_cannot_be_asked_for(client: TestClient, played: ServiceOfTwoDags) -> None:
    client.get("/api/jobs", params={"dag": "theirs", "version": "b"})

    assert [search["dags"] for search in played.searches] == [[]]


def test_counts_beside_the_states_are_of_all_states(client: TestClient, played: ServiceOfTwoDags) -> None:
    answer = client.get("/api/jobs", params={"state": "RUNNING", "label": "team=a", "version": "c"}).json()

    assert [search["filter"] for search in played.searches] == [
        '(state=RUNNING) AND labels.team="a"',
        'labels.team="a"',
    ]
    assert answer["states"]["RUNNING"] == 2
    assert answer["next"] == "t"


def test_same_question_of_many_pages_is_asked_once_until_something_changes(
    client: TestClient, played: ServiceOfTwoDags
) -> None:
    for _ in range(5):
        client.get("/api/jobs", params={"version": "d"})
    assert len(played.searches) == 1

    client.get("/api/jobs", params={"version": "e"})
    assert len(played.searches) == 2


def test_job_that_may_not_be_seen_is_not_there(client: TestClient, played: ServiceOfTwoDags) -> None:
    answer = client.post("/api/jobs/of_theirs/cancel", headers={"X-Training-Action": "1"})

    assert answer.status_code == 404
    assert "'of_theirs'" in answer.json()["message"]
    assert played.cancelled == []


def test_cancel_needs_the_header_that_only_our_page_sends(
    client: TestClient, played: ServiceOfTwoDags
) -> None:
    assert client.post("/api/jobs/of_mine/cancel").status_code == 403
    assert played.cancelled == []

    answer = client.post("/api/jobs/of_mine/cancel", headers={"X-Training-Action": "1"})

    assert answer.json() == {"id": "of_mine", "state": "RUNNING"}
    assert played.cancelled == ["/ops/v1/projects/p/jobs/of_mine:cancel"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"label": "Team"}, "label: must be KEY=VALUE"),
        ({"state": "BROKEN"}, "state"),
        ({"since": "never"}, "since: must be one of"),
    ],
)
def test_filter_that_cannot_be_read_says_which_part(
    client: TestClient, params: dict[str, str], message: str
) -> None:
    answer = client.get("/api/jobs", params=params)

    assert answer.status_code == 400
    assert message in answer.json()["message"]
    assert answer.json()["advice"] == "Change the filter, or clear it."


def test_service_that_is_down_is_said_with_what_to_do(client: TestClient, played: ServiceOfTwoDags) -> None:
    played.is_down = True

    answer = client.get("/api/jobs", params={"version": "f"})

    assert answer.status_code == 503
    assert "did not answer" in answer.json()["message"]
    assert "Is the training service running" in answer.json()["advice"]
