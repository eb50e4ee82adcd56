"""From messages to requests of REST and back, without a server."""

from __future__ import annotations

import json

import pytest

from training_api.errors import InvalidRequest
from training_service.api.vertex_v1.messages import message_class
from training_service.grpc_api.methods import Method, method_of
from training_service.grpc_api.transcoding import rest_request, rpc_answer, rpc_error

PARENT = "projects/demo/locations/us-central1"


def method(name: str) -> Method:
    found = method_of(f"/google.cloud.aiplatform.v1.JobService/{name}")
    assert found
    return found


def sent(method: str, **fields: object) -> bytes:
    return message_class(f"{method}Request")(**fields).SerializeToString()


def test_a_field_of_the_message_is_the_body_and_another_one_the_path() -> None:
    request = rest_request(
        method("CreateCustomJob"), sent("CreateCustomJob", parent=PARENT, custom_job={"display_name": "ä"})
    )

    assert (request.verb, request.path, request.query) == ("POST", f"/vertex/v1/{PARENT}/customJobs", {})
    assert json.loads(request.body) == {"displayName": "ä"}


def test_what_has_no_body_has_a_query() -> None:
    fields = {"filter": 'a="ü&b"', "page_size": 2, "read_mask": {"paths": ["display_name", "name"]}}
    request = rest_request(method("ListCustomJobs"), sent("ListCustomJobs", parent=PARENT, **fields))

    assert (request.verb, request.body) == ("GET", b"")
    assert request.query == {"filter": 'a="ü&b"', "pageSize": 2, "readMask": "displayName,name"}


def test_a_body_that_was_not_sent_is_an_empty_one() -> None:
    assert rest_request(method("CreateCustomJob"), sent("CreateCustomJob", parent=PARENT)).body == b"{}"
    name = f"{PARENT}/customJobs/1"
    assert rest_request(method("CancelCustomJob"), sent("CancelCustomJob", name=name)).body == b"{}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1",
        f"{PARENT}/customJobs/",
        f"{PARENT}/customJobs/1/2",
        f"{PARENT}/operations/1",
        f"/{PARENT}/customJobs/1",
        f"{PARENT}/customJobs/1\n/",
    ],
)
def test_a_name_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(
        InvalidRequest, match=r"name: must be a name of the form 'projects/\*/locations/\*/cust"
    ):
        rest_request(method("GetCustomJob"), sent("GetCustomJob", name=name))


@pytest.mark.parametrize("garbage", [b"\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe", b"\x0b" * 200])
def test_bytes_that_are_no_message_are_refused(garbage: bytes) -> None:
    with pytest.raises(
        InvalidRequest, match=r"must be a serialized google.cloud.aiplatform.v1.GetCustomJobReq"
    ):
        rest_request(method("GetCustomJob"), garbage)


def test_a_field_of_a_newer_client_is_refused_by_its_place() -> None:
    newer = b"\xba\x3e\x01a"  # a text in field 999
    pool = message_class("WorkerPoolSpec").FromString(newer)
    job = {"job_spec": {"worker_pool_specs": [{}, pool]}}

    with pytest.raises(InvalidRequest) as caught:
        rest_request(method("CreateCustomJob"), sent("CreateCustomJob", parent=PARENT, custom_job=job))

    (violation,) = caught.value.violations
    assert violation.field == "customJob.jobSpec.workerPoolSpecs[1]"
    assert "WorkerPoolSpec has no field of the number 999 here" in violation.description


def test_a_value_without_a_json_form_is_refused() -> None:
    unknown = {"error": {"details": [{"type_url": "type.googleapis.com/not.Known", "value": b"a"}]}}

    with pytest.raises(InvalidRequest, match="a value has no JSON form"):
        rest_request(method("CreateCustomJob"), sent("CreateCustomJob", parent=PARENT, custom_job=unknown))


def test_an_answer_becomes_its_message_and_an_error_its_status() -> None:
    job = rpc_answer(method("GetCustomJob"), b'{"name": "n", "state": "JOB_STATE_QUEUED"}')
    violation = {"field": "f", "description": "d"}
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]
    error = {"code": 400, "status": "INVALID_ARGUMENT", "message": "m", "details": details}
    found = rpc_error(json.dumps({"error": error}).encode(), {"INVALID_ARGUMENT": 3})

    assert message_class("CustomJob").FromString(job).state == 1
    assert (found.status, found.message) == ("INVALID_ARGUMENT", "m")
    status = message_class("google.rpc.Status").FromString(found.details)
    (detail,) = status.details
    bad = message_class("google.rpc.BadRequest").FromString(detail.value)
    assert (status.code, [each.field for each in bad.field_violations]) == (3, ["f"])
