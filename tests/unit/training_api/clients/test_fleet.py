"""The client of the operations API: its requests, and the answers that it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.fakes.training_answers import ENDPOINT, Handler, Recorder, answer, error_body
from training_api.clients.fleet import OpsClient
from training_api.errors import JobNotFound, TransportError
from training_api.fleet.history import FleetHistoryRequest
from training_api.fleet.wire import FleetResponse, Room, SearchJobsRequest, SpanKind
from training_api.job.project_number import project_number


def make_client(handler: Handler, project: str = "demo", **options: Any) -> OpsClient:
    return OpsClient(ENDPOINT + "/", project, transport=httpx.MockTransport(handler), **options)


@pytest.mark.parametrize(
    ("ask", "method", "target"),
    [
        (lambda ops: ops.timeline("a/b"), "GET", "/jobs/a%2Fb/timeline"),
        (lambda ops: ops.usage("a"), "GET", "/jobs/a/usage"),
        (lambda ops: ops.curves("a:b"), "GET", "/jobs/a%3Ab/curves"),
        (lambda ops: ops.fleet(), "GET", "/fleet"),
    ],
)
def test_a_question_is_the_request_of_the_api(
    ask: Callable[[OpsClient], object], method: str, target: str
) -> None:
    recorder = Recorder({})

    with make_client(recorder, headers={"Authorization": "Bearer token"}) as ops:
        ask(ops)

    assert recorder.seen == (method, f"/ops/v1/projects/demo{target}", None)
    assert recorder.request is not None
    assert recorder.request.headers["Authorization"] == "Bearer token"


def test_a_search_sends_what_it_says_and_no_more() -> None:
    recorder = Recorder({"jobs": [], "total": 3})

    with make_client(recorder, project="a/b") as ops:
        found = ops.search_jobs(SearchJobsRequest(filter="state=FAILED", dags=["d"]))

    body = {"filter": "state=FAILED", "dags": ["d"], "pageSize": 50, "pageToken": ""}
    assert recorder.seen == ("POST", "/ops/v1/projects/a%2Fb/jobs:search", body)
    assert found.total == 3


def test_a_history_is_asked_for_by_its_request() -> None:
    recorder = Recorder({"since": 1.0, "until": 2.0, "times": [1.0], "jobs": 3})
    request = FleetHistoryRequest(window_seconds=60, step_seconds=10, cost_step_seconds=60, dags=["d"])

    with make_client(recorder) as ops:
        found = ops.history(request)

    assert recorder.seen == ("POST", "/ops/v1/projects/demo/fleet:history", request.to_wire())
    assert (found.jobs, found.cost) == (3, None)


def test_an_answer_is_read_into_its_model() -> None:
    span = {"kind": "RUN", "name": "master-replica-0", "startTime": "2026-11-20T12:00:00Z", "exitCode": 1}

    with make_client(answer(200, {"spans": [span]})) as ops:
        (read,) = ops.timeline("a").spans

    assert (read.kind, read.name, read.exit_code, read.end_time) == (
        SpanKind.RUN,
        "master-replica-0",
        1,
        None,
    )


def test_a_fleet_whose_engine_does_not_answer_has_no_capacity() -> None:
    used = {"cpus": 1.5, "memoryBytes": 8, "gpus": 0, "replicas": 1}

    with make_client(answer(200, {"used": used})) as ops:
        fleet = ops.fleet()

    assert fleet == FleetResponse(used=Room(cpus=1.5, memory_bytes=8, gpus=0, replicas=1))


def test_an_unknown_job_is_not_found() -> None:
    with (
        make_client(answer(404, error_body(404, "no such job", "NOT_FOUND"))) as ops,
        pytest.raises(JobNotFound),
    ):
        ops.usage("absent")


@pytest.mark.parametrize("body", [{}, {"version": None}, []])
def test_a_version_that_is_none_is_an_error_of_the_other_side(body: object) -> None:
    with make_client(answer(200, body)) as ops, pytest.raises(TransportError, match="no VersionResponse"):
        ops.version()


NUMBER = project_number("demo")
DETAIL = {
    "job": {"jobId": "12", "dialect": "vertex_v1", "state": "QUEUED", "createTime": "2026-11-20T12:00:00Z"},
    "name": f"projects/{NUMBER}/locations/l/customJobs/12",
    "pipeline": {"name": f"projects/{NUMBER}/locations/l/trainingPipelines/34"},
}


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("12", "12"),
        ("34", "34"),
        (f"projects/{NUMBER}/locations/l/customJobs/12", "12"),
        ("projects/demo/locations/l/customJobs/12", "12"),
        ("projects/demo/locations/l/trainingPipelines/34", "34"),
    ],
)
def test_a_job_is_asked_for_by_its_id_and_by_its_names(name: str, asked: str) -> None:
    recorder = Recorder(DETAIL)

    with make_client(recorder) as ops:
        found = ops.job(name)

    assert recorder.seen == ("GET", f"/ops/v1/projects/demo/jobs/{asked}", None)
    assert found.job.job_id == "12"


@pytest.mark.parametrize(
    "name",
    [
        "projects/other/locations/l/customJobs/12",
        "projects/demo/locations/elsewhere/customJobs/12",
        "projects/demo/locations/l/hyperparameterTuningJobs/12",
        "projects/demo/12",
        "/12",
    ],
)
def test_a_name_that_is_not_the_jobs_own_finds_nothing(name: str) -> None:
    with (
        make_client(Recorder(DETAIL)) as ops,
        pytest.raises(JobNotFound, match="not found in project 'demo'"),
    ):
        ops.job(name)


def test_a_cancel_is_a_request_without_fields() -> None:
    recorder = Recorder({})

    with make_client(recorder) as ops:
        ops.cancel_job("a/b")

    assert recorder.seen == ("POST", "/ops/v1/projects/demo/jobs/a%2Fb:cancel", {})
