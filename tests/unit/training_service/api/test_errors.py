"""Every error has the API's form: ``google.rpc.Status``, with the fields that are wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import Message

from training_api.errors import (
    FieldViolation,
    InvalidFilter,
    InvalidJobSpec,
    InvalidRequest,
    JobConflict,
    Throttled,
)
from training_service.api.errors import error_response, install_error_handlers

IMAGE = "registry.test/demo-project/trainer:1"
PARENT = "/v1/projects/demo-project/jobs"


def make_body(job_id: str = "job", **training_input: Any) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": IMAGE}} | training_input,
    }


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
    unchanged: TestClient, body: dict[str, Any], field: str, text: str
) -> None:
    response = unchanged.post(PARENT, json=body)

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
    unchanged: TestClient, request_arguments: dict[str, Any], code: int, status: str
) -> None:
    response = unchanged.request(**request_arguments)

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["status"]) == (code, code, status)
    assert error["message"]


def test_form_that_a_web_page_could_send_is_refused(unchanged: TestClient) -> None:
    content = b'{"jobId": "job", "trainingInput": {"masterConfig": {"imageUri": "h.test/p/i:1"}}}'

    response = unchanged.post(PARENT, content=content, headers={"content-type": "text/plain"})

    assert response.status_code == 400


def test_another_method_is_answered_with_those_that_there_are(unchanged: TestClient) -> None:
    response = unchanged.put(f"{PARENT}/job", json={})

    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, PATCH"


def test_a_method_of_a_verb_is_not_that_of_the_name_that_it_looks_like(unchanged: TestClient) -> None:
    response = unchanged.delete(f"{PARENT}/job:cancel")

    assert (response.status_code, response.headers["Allow"]) == (405, "POST")


def test_a_long_value_is_shown_in_part(unchanged: TestClient) -> None:
    response = unchanged.post(PARENT, json=make_body(workerCount="x" * 1000))

    (violation,) = response.json()["error"]["details"][0]["fieldViolations"]
    assert violation["description"].endswith(f"got '{'x' * 99}...")


def raising(error: Exception) -> TestClient:
    """Return a client of an app whose one route fails so."""
    app = FastAPI()
    install_error_handlers(app)

    @app.get("/")
    def fail() -> None:
        raise error

    return TestClient(app, raise_server_exceptions=False)


BAD_LABELS = [FieldViolation(field="labels", description="too many")]


@pytest.mark.parametrize(
    ("error", "code", "status", "fields"),
    [
        (JobConflict("taken", code=409, status="ALREADY_EXISTS"), 409, "ALREADY_EXISTS", []),
        (Throttled("slow down", code=429, status="RESOURCE_EXHAUSTED"), 429, "RESOURCE_EXHAUSTED", []),
        (InvalidJobSpec(BAD_LABELS), 400, "INVALID_ARGUMENT", ["labels"]),
        (InvalidRequest(BAD_LABELS), 400, "INVALID_ARGUMENT", ["labels"]),
        (InvalidFilter("cannot be read"), 400, "INVALID_ARGUMENT", ["filter"]),
        (ZeroDivisionError("secret"), 500, "INTERNAL", []),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_each_error_of_the_project_has_its_status(
    error: Exception, code: int, status: str, fields: list[str]
) -> None:
    response = raising(error).get("/")

    body = response.json()["error"]
    assert (response.status_code, body["code"], body["status"]) == (code, code, status)
    details = body.get("details", [{"fieldViolations": []}])
    assert [violation["field"] for violation in details[0]["fieldViolations"]] == fields


def test_what_went_wrong_within_is_for_the_log_only() -> None:
    assert "secret" not in raising(ZeroDivisionError("secret")).get("/").text


def test_a_401_says_how_to_authenticate() -> None:
    assert error_response(401, "who are you").headers["WWW-Authenticate"] == "Bearer"
    assert "WWW-Authenticate" not in error_response(403, "no").headers


def test_a_code_without_a_name_is_unknown() -> None:
    assert b'"status":"UNKNOWN"' in bytes(error_response(418, "teapot").body)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/projects/p/jobs"), ("POST", "/registry/token"), ("PUT", "/storage/v1/b/bucket/iam")],
)
def test_a_client_that_goes_away_within_its_body_is_no_error(
    unchanged: TestClient, method: str, path: str
) -> None:
    messages = [{"type": "http.request", "body": b"half", "more_body": True}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        """Nobody listens."""

    headers = [(b"host", b"127.0.0.1"), (b"content-length", b"100"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}

    asyncio.run(unchanged.app(scope, receive, send))
