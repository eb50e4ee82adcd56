"""
What the service's answers stand for: JSON, or one of the project's errors.

It is the same in both clients.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.fakes.training_answers import ENDPOINT, Call, answer, call_sync, error_body
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import (
    AccessDenied,
    JobConflict,
    JobNotFound,
    QuotaExceeded,
    ServiceError,
    ServiceUnavailable,
    Throttled,
    TrainingError,
    TransportError,
)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        (400, "INVALID_ARGUMENT", ServiceError),
        (401, "UNAUTHENTICATED", AccessDenied),
        (403, "PERMISSION_DENIED", AccessDenied),
        (404, "NOT_FOUND", JobNotFound),
        (405, "UNIMPLEMENTED", ServiceError),
        (409, "ALREADY_EXISTS", JobConflict),
        (429, "RESOURCE_EXHAUSTED", Throttled),
        (500, "INTERNAL", ServiceUnavailable),
        (502, "UNAVAILABLE", ServiceUnavailable),
        (503, "UNAVAILABLE", ServiceUnavailable),
        (504, "DEADLINE_EXCEEDED", ServiceUnavailable),
    ],
)
def test_every_status_has_its_error(call: Call, code: int, status: str, kind: type[ServiceError]) -> None:
    with pytest.raises(ServiceError) as caught:
        call(answer(code, error_body(code, "no such luck", status)), "get_job", "a")

    assert type(caught.value) is kind
    assert str(caught.value).partition(";")[0] == "no such luck"
    assert (caught.value.code, caught.value.status) == (code, status)


def test_a_redirect_is_an_error_and_is_not_followed(call: Call) -> None:
    with pytest.raises(ServiceError) as caught:
        call(answer(302, {}, headers={"Location": "http://example.com/"}), "get_job", "a")

    assert caught.value.code == 302


@pytest.mark.parametrize("method", ["list_jobs", "cancel_job", "list_log_entries"])
def test_every_method_raises_what_the_service_says(call: Call, method: str) -> None:
    with pytest.raises(JobNotFound, match="no such luck"):
        call(answer(404, error_body(404, "no such luck", "NOT_FOUND")), method, "a")


def test_a_taken_job_id_is_a_conflict() -> None:
    with pytest.raises(JobConflict, match="exists"):
        call_sync(answer(409, error_body(409, "job exists", "ALREADY_EXISTS")), "create_job", Job(job_id="a"))


def test_violations_follow_the_message_once(call: Call) -> None:
    violations = [("jobId", "is bad"), ("trainingInput.jobDir", "is worse")]
    body = error_body(400, "The job is invalid: jobId: is bad", "INVALID_ARGUMENT", *violations)

    with pytest.raises(ServiceError) as caught:
        call(answer(400, body), "get_job", "a")

    text = "The job is invalid: jobId: is bad; trainingInput.jobDir: is worse; the request itself is refused"
    assert str(caught.value).startswith(text)


def test_details_of_another_kind_are_passed_over(call: Call) -> None:
    body = error_body(403, "no", "PERMISSION_DENIED")
    body["error"]["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "x"}]

    with pytest.raises(AccessDenied, match=r"^no; have an owner"):
        call(answer(403, body), "get_job", "a")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>Bad Gateway</html>",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b'"text"',
        b'{"error": "text"}',
        b'{"error": {"message": "no status"}}',
        b'{"error": {"message": "m", "status": "S", "details": null}}',
        b'{"error": {"message": "m", "status": "S", "details": ["x"]}}',
        b'{"detail": "Not Found"}',
    ],
)
def test_an_error_in_another_form_is_shown_as_it_came(call: Call, content: bytes) -> None:
    with pytest.raises(ServiceUnavailable) as caught:
        call(lambda _: httpx.Response(502, content=content), "get_job", "a")

    message = str(caught.value)
    assert message.startswith(f"HTTP 502 from {ENDPOINT}/v1/projects/demo/jobs/a: ")
    assert (caught.value.code, caught.value.status) == (502, "UNKNOWN")


def test_of_a_long_error_only_the_beginning_is_shown(call: Call) -> None:
    with pytest.raises(ServiceUnavailable) as caught:
        call(lambda _: httpx.Response(502, text="x" * 100_000), "get_job", "a")

    assert str(caught.value).endswith(": " + repr("x" * 200))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        ("0", 0.0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("soon", None),
        ("", None),
        ("-5", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_the_wish_of_a_throttling_service_is_kept(
    call: Call, header: str | None, seconds: float | None
) -> None:
    headers = {} if header is None else {"Retry-After": header}

    with pytest.raises(Throttled) as caught:
        call(answer(429, error_body(429, "slow down", "RESOURCE_EXHAUSTED"), headers=headers), "get_job", "a")

    assert caught.value.retry_after_seconds == seconds


def test_an_answer_that_cannot_be_decompressed_is_a_transport_error(call: Call) -> None:
    def handle(_: httpx.Request) -> httpx.Response:
        stream = httpx.ByteStream(b"not gzip")
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=stream)

    with pytest.raises(TransportError):
        call(handle, "get_job", "a")


@pytest.mark.parametrize("content", [b"", b"<html>", b'{"jobId": ', b"\xff\xfe\xff"])
def test_an_answer_that_is_no_json_is_a_transport_error(call: Call, content: bytes) -> None:
    with pytest.raises(TransportError, match="answered with something other than JSON"):
        call(lambda _: httpx.Response(200, content=content), "get_job", "a")


@pytest.mark.parametrize("body", [[], "text", None, {"jobId": 5}, {"state": "ASLEEP"}])
def test_an_answer_that_is_no_job_is_an_error_of_this_project(call: Call, body: Any) -> None:
    with pytest.raises(TrainingError):
        call(lambda _: httpx.Response(200, content=json.dumps(body)), "get_job", "a")


def test_a_quota_that_is_too_small_is_no_throttling(call: Call) -> None:
    body = error_body(429, "Quota failure for project demo", "RESOURCE_EXHAUSTED")

    with pytest.raises(QuotaExceeded, match="Quota failure"):
        call(answer(429, body), "get_job", "a")


def test_a_field_of_a_newer_service_is_passed_over(call: Call) -> None:
    assert call(answer(200, {"jobId": "a", "mood": "good"}), "get_job", "a") == Job(job_id="a")


def test_the_reason_of_cloud_storage_stands_for_a_status(call: Call) -> None:
    body = {"error": {"code": 404, "message": "no bucket", "errors": [{"reason": "notFound"}]}}

    with pytest.raises(JobNotFound) as caught:
        call(answer(404, body), "get_job", "a")

    assert caught.value.status == "notFound"
