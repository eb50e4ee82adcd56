"""The client of the training API: one table of behaviours, checked on both clients."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.fakes.training_answers import ENDPOINT, Call, Recorder, answer, call_sync
from training_api.clients.training import TrainingClient, job_log_filter
from training_api.dialects.ml_v1.filters import And, Comparison, parse_filter
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


# --- errors of the service


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
        _call_sync(
            answer(409, error_body(409, "job exists", "ALREADY_EXISTS")), "create_job", Job(job_id="a")
        )


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


# --- no answer


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("connection refused"),
        httpx.ConnectTimeout("timed out"),
        httpx.ReadTimeout("timed out"),
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("server disconnected"),
    ],
)
def test_no_answer_is_a_transport_error_that_names_the_request(call: Call, error: Exception) -> None:
    with pytest.raises(TransportError) as caught:
        call(raising(error), "get_job", "a")

    expected = f"the training service at {ENDPOINT} did not answer GET /v1/projects/demo/jobs/a: {error}"
    assert str(caught.value) == expected
    assert caught.value.__cause__ is error


def test_a_silent_failure_is_named_by_its_kind(call: Call) -> None:
    with pytest.raises(TransportError, match=r": ReadTimeout$"):
        call(raising(httpx.ReadTimeout("")), "get_job", "a")


@pytest.mark.parametrize(
    "endpoint", ["http://training.example.com", "https://training.example.com", "http://[::1]:8470"]
)
def test_no_answer_names_the_endpoint_as_it_was_given(call: Call, endpoint: str) -> None:
    with pytest.raises(TransportError) as caught:
        call(raising(httpx.ConnectError("refused")), "get_job", "a", endpoint=endpoint)

    assert str(caught.value).startswith(f"the training service at {endpoint} did not answer GET ")


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


# --- the environment


@contextmanager
def _recording_server() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a real server that answers ``{}``, and the targets of its requests."""
    targets: list[str] = []

    class _Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            targets.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    with HTTPServer(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", targets
        finally:
            server.shutdown()
            thread.join()


def test_a_proxy_of_the_environment_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    with _recording_server() as (proxy, proxied), _recording_server() as (endpoint, asked):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)

        async def ask() -> None:
            async with AsyncTrainingClient(endpoint, "demo") as client:
                await client.get_job("b")

        with TrainingClient(endpoint, "demo") as client:
            client.get_job("a")
        asyncio.run(ask())

    assert (proxied, asked) == ([], ["/v1/projects/demo/jobs/a", "/v1/projects/demo/jobs/b"])


def test_a_client_can_be_closed_twice() -> None:
    client = TrainingClient(ENDPOINT, "demo")

    client.close()
    client.close()

    with pytest.raises(RuntimeError, match="closed"):
        client.get_job("a")


# --- the filter of a job's log

_names = st.text(st.sampled_from('ab"\\ ()\n') | st.characters(codec="utf-8"), max_size=12)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("j",), 'resource.type="ml_job" AND resource.labels.job_id="j"'),
        (
            ("j", None, "master-replica-0"),
            (
                'resource.type="ml_job" AND resource.labels.job_id="j"'
                ' AND resource.labels.task_name="master-replica-0"'
            ),
        ),
        (
            ("j", datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)),
            (
                'resource.type="ml_job" AND resource.labels.job_id="j"'
                ' AND receiveTimestamp>"2026-01-31T12:00:00.000005Z"'
            ),
        ),
    ],
)
def test_the_filter_asks_for_the_lines_of_one_job(args: tuple[Any, ...], expected: str) -> None:
    assert job_log_filter(*args) == expected


@settings(deadline=None)
@given(job_id=_names, task_name=_names.filter(bool))
def test_the_filter_means_the_job_and_the_task_whatever_they_are_called(job_id: str, task_name: str) -> None:
    assert parse_filter(job_log_filter(job_id, task_name=task_name)) == And(
        (
            Comparison("resource.type", "=", "ml_job"),
            Comparison("resource.labels.job_id", "=", job_id),
            Comparison("resource.labels.task_name", "=", task_name),
        )
    )


# --- the account of the project's jobs


def test_the_account_of_the_projects_jobs_can_be_asked_for() -> None:
    assert (
        call_sync(answer(200, {"serviceAccount": "agent@example.com"}), "service_agent")
        == "agent@example.com"
    )


def test_a_service_that_names_no_account_is_an_error_that_names_the_project() -> None:
    with pytest.raises(ServiceError, match=r"names no service account for project 'demo'"):
        call_sync(answer(200, {}), "service_agent")
