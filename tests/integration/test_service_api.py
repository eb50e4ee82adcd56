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
from tests.support.bed.job_watch import until_state
from training_api.clients.training import TrainingClient, job_log_filter
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
    return httpx.post(service.endpoint + path, trust_env=False, **request)


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

    answer = httpx.get(f"{service.endpoint}/logs/projects/demo-project/jobs/job", trust_env=False)
    absent = httpx.get(f"{service.endpoint}/logs/projects/demo-project/jobs/absent", trust_env=False)

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

    answer = httpx.get(f"{service.endpoint}/logs/projects/demo-project/jobs/job", trust_env=False)

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


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        (make_body("1job"), "jobId", "must start with a letter"),
        (make_body("a-b"), "jobId", "got 'a-b'"),
        ({"jobId": "job"}, "trainingInput", "is required"),
        (make_body(jobDir="/tmp/x"), "trainingInput.jobDir", "gs://BUCKET/FOLDER"),
        (
            make_body(masterConfig={"imageUri": "python:3.11"}),
            "trainingInput.masterConfig.imageUri",
            "no registry host",
        ),
        (
            make_body(typo=1),
            "trainingInput.typo",
            "Unknown name \"typo\" at 'job.training_input': Cannot find field.",
        ),
        ({**make_body(), "nmae": 1}, "nmae", "Unknown name \"nmae\" at 'job': Cannot find field."),
        (
            make_body(masterConfig={"imageUri": IMAGE, "imageUrl": 1}),
            "trainingInput.masterConfig.imageUrl",
            "at 'job.training_input.master_config'",
        ),
        (make_body(scaleTier="HUGE"), "trainingInput.scaleTier", "'HUGE'"),
        (make_body(workerCount="two"), "trainingInput.workerCount", "'two'"),
        (make_body(workerCount=2), "trainingInput.workerCount", "CUSTOM"),
        (make_body(scheduling={"maxWaitTime": "60s"}), "trainingInput.scheduling.maxWaitTime", "1800s"),
    ],
)
def test_bad_job_is_refused_in_the_form_of_the_api(
    service: LiveService, body: dict[str, Any], field: str, text: str
) -> None:
    response = post(service, PARENT, json=body)

    error = response.json()["error"]
    (violation,) = error["details"][0]["fieldViolations"]
    assert (response.status_code, error["code"], error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert violation["field"] == field
    assert text in violation["description"]
    assert text in error["message"]


@pytest.mark.parametrize(
    ("request_arguments", "code", "status"),
    [
        (
            {
                "method": "POST",
                "url": PARENT,
                "content": b"{",
                "headers": {"content-type": "application/json"},
            },
            400,
            "INVALID_ARGUMENT",
        ),
        ({"method": "POST", "url": PARENT, "json": [1]}, 400, "INVALID_ARGUMENT"),
        ({"method": "GET", "url": "/v1/nothing"}, 404, "NOT_FOUND"),
        ({"method": "DELETE", "url": f"{PARENT}/job"}, 405, "UNIMPLEMENTED"),
        ({"method": "GET", "url": f"{PARENT}?pageSize=-1"}, 400, "INVALID_ARGUMENT"),
        ({"method": "GET", "url": f"{PARENT}?filter=shoe%3D3"}, 400, "INVALID_ARGUMENT"),
        ({"method": "GET", "url": f"{PARENT}?pageToken=x"}, 400, "INVALID_ARGUMENT"),
        ({"method": "POST", "url": "/v2/entries:list", "json": {"filter": "("}}, 400, "INVALID_ARGUMENT"),
        (
            {"method": "POST", "url": "/v2/entries:list", "json": {"resourceNames": ["folders/1"]}},
            400,
            "INVALID_ARGUMENT",
        ),
        (
            {
                "method": "POST",
                "url": "/v2/entries:list",
                "json": {"resourceNames": ["projects/p"], "orderBy": "size"},
            },
            400,
            "INVALID_ARGUMENT",
        ),
    ],
)
def test_every_error_has_the_form_of_the_api(
    service: LiveService, request_arguments: dict[str, Any], code: int, status: str
) -> None:
    url = service.endpoint + request_arguments.pop("url")
    with httpx.Client(trust_env=False) as http:
        response = http.request(url=url, **request_arguments)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["status"]) == (code, code, status)
    assert error["message"]


def test_request_under_a_foreign_host_name_is_refused(service: LiveService) -> None:
    response = httpx.get(f"{service.endpoint}{PARENT}", headers={"host": "evil.example"}, trust_env=False)

    error = response.json()["error"]
    assert (response.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    assert "got 'evil.example'; TRAINING_ALLOWED_HOSTS adds names" in error["message"]


def test_form_that_a_web_page_could_send_is_refused(service: LiveService) -> None:
    content = b'{"jobId": "job", "trainingInput": {"masterConfig": {"imageUri": "h.test/p/i:1"}}}'

    response = post(service, PARENT, content=content, headers={"content-type": "text/plain"})

    assert response.status_code == 400


def test_health_follows_the_engine(service: LiveService) -> None:
    well = httpx.get(f"{service.endpoint}/health", trust_env=False)
    service.engine.available = False
    ill = httpx.get(f"{service.endpoint}/health", trust_env=False)

    assert (well.status_code, well.json()["status"]) == (200, "ok")
    assert (ill.status_code, ill.json()["status"]) == (503, "degraded")
    assert "switched off" in ill.json()["engine"]


def test_metrics_are_in_the_form_of_prometheus(client: TrainingClient, service: LiveService) -> None:
    client.create_job(make_job())
    until_state(client, "job", JobState.RUNNING)

    text = httpx.get(f"{service.endpoint}/metrics", trust_env=False).text

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
