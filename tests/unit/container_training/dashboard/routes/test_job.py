"""The routes of one job's page, before a service that a test plays."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from container_training.dashboard.routes import job as job_api
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.job_rows import make_row
from tests.support.fakes.service_of_two_dags import MINE, ServiceOfTwoDags
from training_api.job.project_number import project_number

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
    pool = {"name": "master", "count": 1, "machineType": "m", "image": "h/i:1", "args": ["--epochs", "3"]}
    played.more_of_jobs = {"pools": [pool], "outputDir": "gs://bucket/jobs/1", "maxRunningSeconds": 60}

    page = ask(client)

    assert (page["pools"][0]["args"], page["folder"]) == (["--epochs", "3"], "gs://bucket/jobs/1")
    assert page["limits"] == {"wait": None, "run": 60}
    assert page["labels"] == {"airflow-dag": "mine"}
    assert (page["job"]["id"], page["name"]) == ("of_mine", "projects/p/jobs/of_mine")
    assert page["job"]["api"] == "AI Platform Training"
    assert page["job"]["canCancel"] is True
    assert (page["study"], page["pipeline"]) == (None, None)


def test_a_job_of_vertex_ai_has_its_name_and_its_pipeline(
    client: TestClient, played: ServiceOfTwoDags
) -> None:
    played.jobs = [make_row(job_id="1234", dialect="vertex_v1", display_name="digits", labels=MINE)]
    pipeline = {"name": "projects/1/locations/l/trainingPipelines/5", "displayName": "retrain"}
    played.more_of_jobs = {"name": "projects/1/locations/l/customJobs/1234", "pipeline": pipeline}

    page = client.get("/api/jobs/1234").json()

    assert (page["job"]["api"], page["job"]["displayName"]) == ("Vertex AI", "digits")
    assert page["name"] == "projects/1/locations/l/customJobs/1234"
    assert page["pipeline"] == pipeline


@pytest.mark.parametrize("owner", ["p", str(project_number("p"))])
def test_a_job_is_found_by_its_resource_name(
    client: TestClient, played: ServiceOfTwoDags, owner: str
) -> None:
    played.jobs = [make_row(job_id="1234", dialect="vertex_v1", labels=MINE)]
    played.more_of_jobs = {"name": f"projects/{project_number('p')}/locations/l/customJobs/1234"}

    answer = client.get(f"/api/jobs/projects/{owner}/locations/l/customJobs/1234")

    assert answer.json()["job"]["id"] == "1234"


@pytest.mark.parametrize(
    "name",
    [
        "projects/another/locations/l/customJobs/of_mine",
        "projects/p/locations/l/customJobs/of_mine",
        "of_mine/of_mine",
        "/of_mine",
        "9" * 10_000,
        "of%00mine",
        "nothing",
        "",
    ],
)
def test_what_is_no_job_of_the_project_is_not_there(client: TestClient, name: str) -> None:
    answer = client.get(f"/api/jobs/{name}")

    assert answer.status_code == 404
    assert answer.json()["message"].startswith("there is no job '")
    assert len(answer.text) < 1000


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
    played.more_of_jobs = {"outputDir": "gs://bucket/jobs/1"}
    bucket.objects = {"jobs/1/model.bin": b"1234", "jobs/10/other.bin": b"1"}

    assert [(file["name"], file["bytes"]) for file in ask(client, "/files")["files"]] == [("model.bin", 4)]
