"""The routes of one job's page, before a service that a test plays."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from container_training.dashboard.routes import job as job_api
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.service_of_two_dags import ServiceOfTwoDags

NOON = "2026-11-20T12:00:00Z"
ROUTES = ["", "/timeline", "/usage", "/curves", "/plots/best-so-far", "/files", "/log", "/log.txt"]


@pytest.fixture(autouse=True)
def no_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow knows no run of the jobs."""
    monkeypatch.setattr(job_api, "find_origins", lambda jobs, rights, session: {})


def ask(client: TestClient, path: str = "", **query: str) -> Any:
    answer = client.get(f"/api/jobs/of_mine{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("path", ROUTES)
def test_a_hidden_job_is_not_there(client: TestClient, path: str) -> None:
    answer = client.get(f"/api/jobs/of_theirs{path}")

    assert answer.status_code == 404
    assert answer.json()["message"] == "there is no job 'of_theirs'"


def test_the_page_has_what_the_job_asked_for(client: TestClient, played: ServiceOfTwoDags) -> None:
    played.more_of_jobs = {"trainingInput": {"args": ["--epochs", "3"], "jobDir": "gs://bucket/jobs/1"}}

    page = ask(client)

    assert (page["args"], page["jobDir"]) == (["--epochs", "3"], "gs://bucket/jobs/1")
    assert page["labels"] == {"airflow-dag": "mine"}
    assert page["job"]["id"] == "of_mine"
    assert page["job"]["canCancel"] is True
    assert page["study"] is None


def test_a_job_that_is_gone_between_two_questions_is_not_there(
    client: TestClient, played: ServiceOfTwoDags
) -> None:
    ask(client, version="1")
    played.jobs_found = []

    answer = client.get("/api/jobs/of_mine", params={"version": "2"})

    assert answer.status_code == 404


def test_a_timeline_has_a_lane_a_replica(client: TestClient, played: ServiceOfTwoDags) -> None:
    span = {"kind": "RUN", "name": "master-replica-0", "startTime": NOON, "exitCode": 3}
    played.answers["/timeline"] = {"spans": [span]}

    (lane,) = ask(client, "/timeline")["lanes"]

    assert lane["replica"] == "master-replica-0"
    assert lane["runs"][0]["exitCode"] == 3


def test_usage_and_curves_of_a_job_that_left_none_are_empty(
    client: TestClient, played: ServiceOfTwoDags
) -> None:
    played.answers |= {"/usage": {}, "/curves": {}}

    assert ask(client, "/usage") == {"series": []}
    assert ask(client, "/curves") == {"metrics": []}


@pytest.mark.parametrize("name", ["best-so-far", "pie"])
def test_a_job_without_trials_has_no_plots(client: TestClient, name: str) -> None:
    answer = client.get(f"/api/jobs/of_mine/plots/{name}")

    assert answer.status_code == 404
    assert answer.json()["message"] == f"there is no plot {name!r} of job 'of_mine'"


def test_a_job_without_a_folder_has_no_files(client: TestClient) -> None:
    assert ask(client, "/files") == {"folder": None, "files": [], "isCut": False, "metrics": None}


def test_the_files_of_a_job_are_those_below_its_folder(
    client: TestClient, played: ServiceOfTwoDags, bucket: FakeBucket
) -> None:
    played.more_of_jobs = {"trainingInput": {"jobDir": "gs://bucket/jobs/1"}}
    bucket.objects = {"jobs/1/model.bin": b"1234", "jobs/10/other.bin": b"1"}

    assert [(file["name"], file["bytes"]) for file in ask(client, "/files")["files"]] == [("model.bin", 4)]


def test_an_id_that_no_job_can_have_is_refused(client: TestClient) -> None:
    assert client.get(f"/api/jobs/{'a' * 129}").status_code == 400
