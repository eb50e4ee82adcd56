"""The client of the training API: one table of behaviours, checked on both clients."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.fakes.training_answers import ENDPOINT, Call, Recorder, answer, call_sync
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import GetConfigResponse, Job, ListJobsResponse, TrainingInput
from training_api.errors import ServiceError
from training_api.states import JobState

JOB = {"jobId": "digits_1", "state": "RUNNING"}


# --- requests


@pytest.mark.parametrize(
    ("method", "args", "expected"),
    [
        ("get_job", ("digits_1",), ("GET", "/v1/projects/demo/jobs/digits_1", None)),
        ("cancel_job", ("digits_1",), ("POST", "/v1/projects/demo/jobs/digits_1:cancel", {})),
        (
            "list_jobs",
            ('state="RUNNING"', 5, "tok"),
            ("GET", "/v1/projects/demo/jobs?pageSize=5&filter=state%3D%22RUNNING%22&pageToken=tok", None),
        ),
        (
            "list_log_entries",
            ("f", 10, "tok"),
            (
                "POST",
                "/v2/entries:list",
                {
                    "filter": "f",
                    "orderBy": "timestamp asc",
                    "pageSize": 10,
                    "pageToken": "tok",
                    "projectIds": [],
                    "resourceNames": ["projects/demo"],
                },
            ),
        ),
    ],
)
def test_a_method_sends_the_request_of_the_api(
    call: Call, method: str, args: tuple[Any, ...], expected: tuple[str, str, Any]
) -> None:
    recorder = Recorder({})

    call(recorder, method, *args)

    assert recorder.seen == expected


def test_create_sends_the_job_without_what_it_does_not_say() -> None:
    recorder = Recorder(JOB)
    job = Job(job_id="digits_1", training_input=TrainingInput(region="us-central1", worker_count=2))

    created = call_sync(recorder, "create_job", job)

    body = {"jobId": "digits_1", "trainingInput": {"region": "us-central1", "workerCount": "2"}}
    assert recorder.seen == ("POST", "/v1/projects/demo/jobs", body)
    assert created == Job(job_id="digits_1", state=JobState.RUNNING)


def test_the_projects_service_agent_can_be_asked_for() -> None:
    recorder = Recorder({"serviceAccount": "agent@example.com", "serviceAccountProject": "12"})

    config = call_sync(recorder, "get_config")

    assert recorder.seen == ("GET", "/v1/projects/demo:getConfig", None)
    assert config == GetConfigResponse(service_account="agent@example.com", service_account_project=12)


@pytest.mark.parametrize(
    ("job_id", "quoted"),
    [("a/b", "a%2Fb"), ("a?b#c", "a%3Fb%23c"), ("a:cancel", "a%3Acancel"), ("é %", "%C3%A9%20%25")],
)
def test_a_job_id_is_quoted_so_that_it_stays_one_part_of_the_path(
    call: Call, job_id: str, quoted: str
) -> None:
    recorder = Recorder({})

    call(recorder, "get_job", job_id)
    assert recorder.seen[1] == f"/v1/projects/demo/jobs/{quoted}"

    call(recorder, "cancel_job", job_id)
    assert recorder.seen[1] == f"/v1/projects/demo/jobs/{quoted}:cancel"


def test_the_project_is_quoted_too() -> None:
    recorder = Recorder({})

    with TrainingClient(ENDPOINT, "a/b:c", transport=httpx.MockTransport(recorder)) as client:
        client.list_jobs()

    assert recorder.seen[1].startswith("/v1/projects/a%2Fb%3Ac/jobs")


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:8470/", "http://127.0.0.1:8470/train", "http://127.0.0.1:8470/train//"]
)
def test_an_endpoint_may_have_a_path_and_end_in_slashes(call: Call, endpoint: str) -> None:
    recorder = Recorder({})

    call(recorder, "get_job", "a", endpoint=endpoint)

    assert recorder.seen[1] == ("/train" if "train" in endpoint else "") + "/v1/projects/demo/jobs/a"


def test_headers_and_timeout_go_with_every_request(call: Call) -> None:
    recorder = Recorder({})

    call(recorder, "get_job", "a", headers={"Authorization": "Bearer token"}, timeout_seconds=7)

    assert recorder.request is not None
    assert set(recorder.request.extensions["timeout"].values()) == {7}
    assert recorder.request.headers.get("Authorization") == "Bearer token"


# --- good answers


def test_a_job_is_read(call: Call) -> None:
    assert call(answer(200, JOB), "get_job", "digits_1") == Job(job_id="digits_1", state=JobState.RUNNING)


def test_a_page_of_jobs_is_read(call: Call) -> None:
    page = call(answer(200, {"jobs": [JOB], "nextPageToken": "tok"}), "list_jobs")

    assert page == ListJobsResponse(jobs=[Job.model_validate(JOB)], next_page_token="tok")


def test_an_empty_page_has_no_jobs(call: Call) -> None:
    assert call(answer(200, {}), "list_jobs") == ListJobsResponse()


def test_a_page_of_log_entries_is_read(call: Call) -> None:
    entry = {
        "logName": "projects/demo/logs/master-replica-0",
        "resource": {"type": "ml_job", "labels": {"job_id": "digits_1", "task_name": "master-replica-0"}},
        "timestamp": "2026-01-31T12:00:00Z",
        "insertId": "1",
        "textPayload": "epoch 1",
    }

    page = call(answer(200, {"entries": [entry]}), "list_log_entries", "f")

    assert [(line.task_name, line.message) for line in page.entries] == [("master-replica-0", "epoch 1")]
    assert page.next_page_token is None


def test_cancel_answers_nothing(call: Call) -> None:
    assert call(answer(200, {}), "cancel_job", "digits_1") is None


# --- the account of the project's jobs


def test_the_account_of_the_projects_jobs_can_be_asked_for() -> None:
    assert (
        call_sync(answer(200, {"serviceAccount": "agent@example.com"}), "service_agent")
        == "agent@example.com"
    )


def test_a_service_that_names_no_account_is_an_error_that_names_the_project() -> None:
    with pytest.raises(ServiceError, match=r"names no service account for project 'demo'"):
        call_sync(answer(200, {}), "service_agent")
    with pytest.raises(ServiceError, match=r"names no number of project 'demo'"):
        call_sync(answer(200, {}), "project_number")


def test_the_projects_number_can_be_asked_for() -> None:
    assert call_sync(answer(200, {"serviceAccountProject": "12"}), "project_number") == 12


# --- another attempt


def test_a_failed_job_is_final_and_has_no_other_region() -> None:
    """What was not the trainer's fault the service itself starts again."""
    job = Job.model_validate({**JOB, "state": "FAILED", "trainingInput": {"region": "us-central1"}})

    assert call_sync(Recorder({}), "may_pass", "Internal error occurred.") is False
    assert call_sync(Recorder({}), "next_region", {}, job) == ""
