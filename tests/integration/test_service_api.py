"""The service over HTTP: our client, Google's client, and bad requests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web
from tests.support.bed.job_watch import until_state
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobConflict, JobNotFound
from training_api.states import JobState
from training_service.api import job_log

PARENT = "/v1/projects/demo-project/jobs"


def make_body(job_id: str = "job", **training_input: Any) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": IMAGE}} | training_input,
    }


def make_job(job_id: str = "job", **training_input: Any) -> Job:
    return Job.model_validate(make_body(job_id, **training_input))


def post(service: LiveService, path: str, **request: Any) -> httpx.Response:
    return web.post(service.endpoint + path, **request)


def test_job_runs_and_its_log_is_there(client: TrainingClient, service: LiveService) -> None:
    created = client.create_job(make_job())
    until_state(client, "job", JobState.RUNNING)
    service.engine.advance(10**9)
    until_state(client, "job", JobState.SUCCEEDED)

    entries = client.list_log_entries(job_log_filter("job")).entries or []

    assert created.state is JobState.QUEUED
    assert "Job completed successfully." in [entry.message for entry in entries]


def test_a_browser_can_read_a_jobs_log(client: TrainingClient, service: LiveService) -> None:
    client.create_job(make_job())
    until_state(client, "job", JobState.RUNNING)
    service.engine.advance(10**9)
    until_state(client, "job", JobState.SUCCEEDED)

    answer = web.get(f"{service.endpoint}/logs/projects/demo-project/jobs/job")
    absent = web.get(f"{service.endpoint}/logs/projects/demo-project/jobs/absent")

    entries = client.list_log_entries(job_log_filter("job")).entries or []
    assert [line.partition(" service: ")[2] for line in answer.text.splitlines()] == [
        entry.message for entry in entries
    ]
    assert answer.text.startswith(f"{datetime.now(UTC):%Y-}")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert (absent.status_code, absent.json()["error"]["status"]) == (404, "NOT_FOUND")


def test_the_log_has_every_line_of_more_than_one_page(
    client: TrainingClient, service: LiveService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_log, "_PAGE_SIZE", 2)
    client.create_job(make_job())
    until_state(client, "job", JobState.RUNNING)
    service.engine.advance(10**9)
    until_state(client, "job", JobState.SUCCEEDED)

    answer = web.get(f"{service.endpoint}/logs/projects/demo-project/jobs/job")

    entries = client.list_log_entries(job_log_filter("job")).entries or []
    assert len(answer.text.splitlines()) == len(entries) > 2


def test_cancelled_job_ends(client: TrainingClient) -> None:
    client.create_job(make_job())
    until_state(client, "job", JobState.RUNNING)

    client.cancel_job("job")

    until_state(client, "job", JobState.CANCELLED)


def test_request_is_echoed_as_it_was_sent_with_int64_as_text(service: LiveService) -> None:
    body = make_body(
        workerCount=0, scheduling={"priority": 3, "maxRunningTime": "60s"}, enableWebAccess=False
    )

    answer = post(service, PARENT, json=body).json()

    assert answer["trainingInput"] == body["trainingInput"] | {"workerCount": "0"}
    assert answer["state"] == "QUEUED"
    assert answer["createTime"].endswith("Z")


def test_taken_job_id_is_a_conflict(client: TrainingClient) -> None:
    client.create_job(make_job())

    with pytest.raises(JobConflict, match="'job' already exists in project 'demo-project'"):
        client.create_job(make_job())


def test_unknown_job_is_not_found(client: TrainingClient) -> None:
    with pytest.raises(JobNotFound, match="'absent' not found"):
        client.get_job("absent")
    with pytest.raises(JobNotFound):
        client.cancel_job("absent")


def test_projects_do_not_see_each_other(client: TrainingClient, service: LiveService) -> None:
    client.create_job(make_job())

    with TrainingClient(service.endpoint, "other-project") as other:
        assert other.list_jobs().jobs is None
        with pytest.raises(JobNotFound):
            other.get_job("job")
        assert other.create_job(make_job()).job_id == "job"


def test_health_follows_the_engine(service: LiveService) -> None:
    well = web.get(f"{service.endpoint}/health")
    service.engine.available = False
    ill = web.get(f"{service.endpoint}/health")

    assert (well.status_code, well.json()["status"]) == (200, "ok")
    assert (ill.status_code, ill.json()["status"]) == (503, "degraded")
    assert "switched off" in ill.json()["engine"]


def test_metrics_are_in_the_form_of_prometheus(client: TrainingClient, service: LiveService) -> None:
    client.create_job(make_job())
    until_state(client, "job", JobState.RUNNING)

    text = web.get(f"{service.endpoint}/metrics").text

    assert 'training_jobs{state="RUNNING"} 1.0' in text
    assert 'route="/v1/projects/{project}/jobs/{job_id}"' in text


def test_jobs_outlive_the_service(tmp_path: Path) -> None:
    with run_service(tmp_path) as first, TrainingClient(first.endpoint, "demo-project") as client:
        client.create_job(make_job())

    with run_service(tmp_path) as second, TrainingClient(second.endpoint, "demo-project") as client:
        assert client.get_job("job").job_id == "job"


class TestGoogleClient:
    """google-api-python-client with the bundled discovery document, as the guide uses it."""

    @pytest.fixture
    def jobs(self, service: LiveService) -> Any:
        ml = discovery.build(
            "ml",
            "v1",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": f"{service.endpoint}/"},
            cache_discovery=False,
        )
        yield ml.projects().jobs()
        ml.close()

    def test_create_get_list_cancel(self, jobs: Any) -> None:
        created = jobs.create(parent="projects/demo-project", body=make_body()).execute()
        found = jobs.get(name="projects/demo-project/jobs/job").execute()
        listed = jobs.list(parent="projects/demo-project", filter='jobId="job"', pageSize=5).execute()
        cancelled = jobs.cancel(name="projects/demo-project/jobs/job", body={}).execute()

        assert created["state"] == "QUEUED"
        assert found["jobId"] == "job"
        assert [job["jobId"] for job in listed["jobs"]] == ["job"]
        assert cancelled == {}

    def test_error_has_its_reason(self, jobs: Any) -> None:
        with pytest.raises(HttpError) as caught:
            jobs.create(parent="projects/demo-project", body=make_body("1")).execute()

        assert caught.value.resp.status == 400
        assert "must start with a letter" in caught.value.reason
        assert caught.value.error_details[0]["fieldViolations"][0]["field"] == "jobId"

    @pytest.mark.parametrize("project", ["demo-project", "123456789012", "9" * 30])
    def test_project_has_a_service_agent(self, service: LiveService, project: str) -> None:
        with TrainingClient(service.endpoint, project) as client:
            config = client.get_config()

        number = config.service_account_project
        assert config.service_account == f"service-{number}@cloud-ml.google.com.iam.gserviceaccount.com"
