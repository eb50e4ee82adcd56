"""Calls over a real channel: the doors that they pass, and what is answered."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.support.fakes.custom_jobs import make_custom_job, make_pool
from tests.support.fakes.vertex_tuning_jobs import CONDITIONAL, make_study, make_tuning_job
from tests.support.rpc import ADMIN, ANN, JOB_SERVICE, VIEWER, Rpc
from tests.support.waiting import wait_until
from training_api.job.project_number import project_number
from training_service.api.middleware.body_limit import DEFAULT_LIMIT
from training_service.api.vertex_v1.job_methods import CustomJobs
from training_service.api.vertex_v1.messages import message_class, message_pool
from training_service.grpc_api import calls
from training_service.grpc_api.methods import SERVICES

PARENT = "projects/demo/locations/us-central1"
GET = f"/{JOB_SERVICE}/GetCustomJob"
SERVED = [f"/{service}/{name}" for service, methods in SERVICES.items() for name in methods]


def create(rpc: Rpc, token: str = "", **changes: Any) -> dict[str, Any]:
    job = make_custom_job(**changes)
    return rpc.call("CreateCustomJob", {"parent": PARENT, "customJob": job}, token)


@contextmanager
def refused(code: grpc.StatusCode) -> Iterator[list[Any]]:
    """Expect an error of gRPC; gives its words and the ``google.rpc.Status`` of its trailers."""
    found: list[Any] = []
    with pytest.raises(grpc.RpcError) as caught:
        yield found
    assert caught.value.code() is code, caught.value.details()
    trailers = dict(caught.value.trailing_metadata())
    status = message_class("google.rpc.Status").FromString(trailers.get("grpc-status-details-bin", b""))
    found += [caught.value.details(), MessageToDict(status, descriptor_pool=message_pool())]


def audit_entries(rpc: Rpc, token: str = "") -> list[dict[str, Any]]:
    log = {"resourceNames": ["projects/demo"], "filter": 'logName:"cloudaudit.googleapis.com"'}
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    found = rpc.http.post("/v2/entries:list", json=log, headers=headers).raise_for_status().json()
    return [each["protoPayload"] for each in found.get("entries", [])]


# --- what is served


def test_a_job_is_submitted_read_listed_cancelled_and_deleted(rpc: Rpc) -> None:
    created = create(rpc)

    assert created["name"].startswith(f"projects/{project_number('demo')}/locations/us-central1/customJobs/")
    assert created["state"] == "JOB_STATE_QUEUED"
    assert rpc.call("GetCustomJob", {"name": created["name"]}) == created
    assert rpc.call("ListCustomJobs", {"parent": PARENT, "readMask": "name", "pageSize": 1}) == {
        "customJobs": [{"name": created["name"]}]
    }
    assert rpc.call("CancelCustomJob", {"name": created["name"]}) == {}
    with refused(grpc.StatusCode.FAILED_PRECONDITION):
        rpc.call("DeleteCustomJob", {"name": created["name"]})


def test_the_same_job_over_both_transports_is_the_same_row(rpc: Rpc, tmp_path: Path) -> None:
    pool = make_pool(env=[{"name": "A", "value": "$(B)"}], args=["--x", "ü"])
    job = make_custom_job(
        pool,
        labels={"team": "a"},
        scheduling={"timeout": "60s", "maxWaitDuration": "0s", "strategy": "FLEX_START"},
        baseOutputDirectory={"outputUriPrefix": "gs://demo-bucket/out"},
    )
    over_rest = rpc.http.post(f"/vertex/v1/{PARENT}/customJobs", json=job).raise_for_status().json()
    over_grpc = rpc.call("CreateCustomJob", {"parent": PARENT, "customJob": job})

    with closing(sqlite3.connect(tmp_path / "jobs.db")) as database:
        rows = database.execute("SELECT job_id, project, dialect, request, spec FROM jobs").fetchall()
    ids = [each["name"].rpartition("/")[2] for each in (over_rest, over_grpc)]
    assert sorted(row[0] for row in rows) == sorted(ids)
    assert len({tuple(text.replace(row[0], "ID") for text in row) for row in rows}) == 1
    given = ("name", "createTime", "updateTime")
    assert {**over_rest, **dict.fromkeys(given)} == {**over_grpc, **dict.fromkeys(given)}


def test_conditional_parameters_are_read_and_refused_as_over_rest(rpc: Rpc) -> None:
    def search(**changes: Any) -> dict[str, Any]:
        job = make_tuning_job(study=make_study(CONDITIONAL, **changes))
        return rpc.call("CreateHyperparameterTuningJob", {"parent": PARENT, "hyperparameterTuningJob": job})

    created = search(algorithm="RANDOM_SEARCH")

    assert created["studySpec"] == make_study(CONDITIONAL, algorithm="RANDOM_SEARCH")
    assert rpc.http.get(f"/vertex/v1/{created['name']}").json() == created
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as words:
        search()
    (violation,) = words[1]["details"][0]["fieldViolations"]
    assert violation["field"] == "studySpec.parameters[0].conditionalParameterSpecs"


def test_a_project_is_found_by_its_number_and_a_job_in_its_location_only(rpc: Rpc) -> None:
    name = create(rpc)["name"]

    assert rpc.call("GetCustomJob", {"name": name.replace(str(project_number("demo")), "demo")})
    with refused(grpc.StatusCode.NOT_FOUND) as words:
        rpc.call("GetCustomJob", {"name": name.replace("us-central1", "europe-west4")})
    assert "The CustomJob does not exist" in words[0]
    assert words[1] == {"code": 5, "message": words[0]}


def test_a_long_job_is_read_as_a_short_one_and_each_as_it_is_now(rpc: Rpc) -> None:
    pool = make_pool(args=["--x"] * 2000)
    long = rpc.call("CreateCustomJob", {"parent": PARENT, "customJob": make_custom_job(pool)})
    for job in (create(rpc), long):
        assert rpc.call("GetCustomJob", {"name": job["name"]}) == job
        rpc.call("CancelCustomJob", {"name": job["name"]})
        assert rpc.call("GetCustomJob", {"name": job["name"]})["state"] == "JOB_STATE_CANCELLING"


def test_operations_and_locations_are_served(rpc: Rpc) -> None:
    places = "google.cloud.location.Locations"
    page = rpc.call("ListLocations", {"name": "projects/demo", "pageSize": 2}, service=places)

    assert len(page["locations"]) == 2
    assert page["nextPageToken"]
    assert rpc.call("GetLocation", {"name": PARENT}, service=places)["locationId"] == "us-central1"
    assert rpc.call("ListOperations", {"name": PARENT}, service="google.longrunning.Operations") == {}
    for name in ("GetOperation", "WaitOperation"):
        with refused(grpc.StatusCode.NOT_FOUND):
            rpc.call(name, {"name": f"{PARENT}/operations/1"}, service="google.longrunning.Operations")


def test_a_model_is_uploaded_once_and_noted_in_the_audit_log(rpc: Rpc) -> None:
    service = "google.cloud.aiplatform.v1.ModelService"
    sent = {"parent": PARENT, "modelId": "mine", "model": {"displayName": "a model"}}

    operation = rpc.call("UploadModel", sent, service=service)

    name = operation["response"]["model"]
    assert rpc.call("GetModel", {"name": f"{name}@1"}, service=service)["displayName"] == "a model"
    with refused(grpc.StatusCode.ALREADY_EXISTS):
        rpc.call("UploadModel", sent, service=service)
    method = f"{service}.UploadModel"
    codes = [each["status"] for each in audit_entries(rpc) if each["methodName"] == method]
    assert sorted(each.get("code", 0) for each in codes) == [0, 10]


# --- what is refused


def test_broken_rules_are_details_of_the_error(rpc: Rpc) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as words:
        create(rpc, tensorboard="t")

    (detail,) = words[1]["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert [each["field"] for each in detail["fieldViolations"]] == ["jobSpec.tensorboard"]


@pytest.mark.parametrize(
    "pools",
    [
        4 * [make_pool() | {"machineSpec": {"machineType": "nope"}}],
        [make_pool(env=90 * [{"name": 90 * "9"}])],
        [make_pool(env=90 * [{"name": 90 * "ü"}])],
        [make_pool(imageUri=200_000 * "ü")],
    ],
)
def test_an_error_of_many_words_is_cut_to_what_clients_take(rpc: Rpc, pools: list[Any]) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as words:
        rpc.call("CreateCustomJob", {"parent": PARENT, "customJob": make_custom_job(*pools)})

    assert words[0].startswith("The job is invalid: jobSpec.workerPoolSpecs[0].")
    assert words[0].endswith("REST answers all of it)")
    assert words[1]["message"] == words[0]
    assert words[1]["details"][0]["fieldViolations"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (f"/{JOB_SERVICE}/CreateNasJob", "and not 'google.cloud.aiplatform.v1.JobService/CreateNasJob'"),
        ("/google.cloud.aiplatform.v1.DatasetService/ListDatasets", "and not datasets; have the trainer"),
        ("/google.longrunning.Operations/CancelOperation", "'google.longrunning.Operations/CancelOperation'"),
        ("/other.Service/../../v1/projects", "and not"),
    ],
)
def test_what_is_not_served_is_refused_by_name(rpc: Rpc, call: str, told: str) -> None:
    with refused(grpc.StatusCode.UNIMPLEMENTED) as words:
        rpc.send(call, b"")

    assert told in words[0]


def test_a_message_that_cannot_be_read_is_the_clients_mistake(rpc: Rpc) -> None:
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as words:
        rpc.send(GET, b"\xff")

    assert "must be a serialized google.cloud.aiplatform.v1.GetCustomJobRequest" in words[0]
    assert words[1]["details"]


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_that_is_too_long_is_not_read(rpc: Rpc, compression: grpc.Compression) -> None:
    with (
        grpc.insecure_channel(f"127.0.0.1:{rpc.port}", compression=compression) as channel,
        refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as words,
    ):
        channel.unary_unary(GET)(b"\0" * (100 * DEFAULT_LIMIT))

    assert "larger than max" in words[0]


def test_more_calls_than_may_run_are_turned_away(rpc: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MOST_CALLS", 0)

    with refused(grpc.StatusCode.RESOURCE_EXHAUSTED) as words:
        rpc.call("GetCustomJob", {"name": f"{PARENT}/customJobs/1"})
    assert "answers 0 calls at once; try again later" in words[0]


def test_a_mistake_of_the_service_is_an_id_for_the_client_and_one_line_for_the_log(
    rpc: Rpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("the secret cause")

    monkeypatch.setattr(CustomJobs, "get", fail)
    with capture_logs() as logs, refused(grpc.StatusCode.INTERNAL) as words:
        rpc.call("GetCustomJob", {"name": f"{PARENT}/customJobs/1"})

    (line,) = [each for each in logs if each["log_level"] == "error"]
    assert isinstance(line["exc_info"], ZeroDivisionError)
    assert words[0].endswith(f"under the request id {line['request_id']}.")
    assert "secret" not in words[0]


def test_an_answer_that_fits_no_message_is_one_too(rpc: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CustomJobs, "get", lambda *_: {"noSuchField": 1})
    with capture_logs() as logs, refused(grpc.StatusCode.INTERNAL):
        rpc.call("GetCustomJob", {"name": f"{PARENT}/customJobs/1"})

    assert [each["path"] for each in logs if each["log_level"] == "error"] == [GET]


# --- the doors


def test_a_token_is_wanted_before_anything_is_looked_at(guarded: Rpc) -> None:
    for call in (*SERVED, f"/{JOB_SERVICE}/CreateNasJob", "/any.Service/Method"):
        for message in (b"", b"\xff"):
            with refused(grpc.StatusCode.UNAUTHENTICATED):
                guarded.send(call, message)
    with refused(grpc.StatusCode.UNAUTHENTICATED) as words:
        guarded.send(GET, b"", "wrong")
    assert "the bearer token is not valid" in words[0]


def test_the_roles_of_rest_decide(guarded: Rpc) -> None:
    name = create(guarded, ANN)["name"]

    assert guarded.call("GetCustomJob", {"name": name}, VIEWER)["name"] == name
    with refused(grpc.StatusCode.PERMISSION_DENIED) as words:
        create(guarded, VIEWER)
    assert "Permission 'aiplatform.customJobs.create' denied on resource 'projects/demo'" in words[0]
    for method in ("CancelCustomJob", "DeleteCustomJob"):
        with refused(grpc.StatusCode.PERMISSION_DENIED):
            guarded.call(method, {"name": name}, VIEWER)


def test_changes_and_refusals_are_in_the_audit_log_as_those_of_rest_are(guarded: Rpc) -> None:
    created = create(guarded, ANN)
    with refused(grpc.StatusCode.PERMISSION_DENIED):
        create(guarded, VIEWER)
    over_grpc = audit_entries(guarded, ADMIN)
    path, job = f"/vertex/v1/{PARENT}/customJobs", make_custom_job()
    other = guarded.http.post(path, json=job, headers={"Authorization": f"Bearer {ANN}"}).json()
    guarded.http.post(path, json=job, headers={"Authorization": f"Bearer {VIEWER}"})
    over_rest = audit_entries(guarded, ADMIN)[len(over_grpc) :]

    for one, two in zip(over_grpc[-2:], over_rest, strict=True):
        assert one["requestMetadata"] == {"callerIp": "127.0.0.1"}
        text = json.dumps({**one, "requestMetadata": two["requestMetadata"]})
        ids = [each["name"].rpartition("/")[2] for each in (created, other)]
        assert json.loads(text.replace(ids[0], ids[1])) == two
    assert [each["status"].get("code", 0) for each in over_rest] == [0, 7]


def test_what_was_begun_is_done_and_noted_though_the_client_has_gone(
    rpc: Rpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    original = CustomJobs.create

    def slow(*arguments: Any) -> dict[str, Any]:
        begun.set()
        may_go_on.wait(30)
        return original(*arguments)

    monkeypatch.setattr(CustomJobs, "create", slow)
    request = message_class("CreateCustomJobRequest")(parent=PARENT).SerializeToString()
    call = rpc.channel.unary_unary(f"/{JOB_SERVICE}/CreateCustomJob").future(request)
    assert begun.wait(30)
    call.cancel()
    # The service has seen it, while what was begun still waits.
    wait_until(
        lambda: _count(rpc, f"{JOB_SERVICE}/CreateCustomJob", "CANCELLED") == 1,
        "the end of the call is counted",
    )
    may_go_on.set()

    # An empty job is refused, and a refusal of a change is noted.
    (entry,) = wait_until(
        lambda: audit_entries(rpc) or None, "the call is in the audit log", ignoring=AssertionError
    )
    assert entry["status"] == {"code": 3}


def test_a_deadline_ends_the_call(rpc: Rpc, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on = threading.Event()
    monkeypatch.setattr(CustomJobs, "get", lambda *_: may_go_on.wait(30) and {})
    request = message_class("GetCustomJobRequest")(name=f"{PARENT}/customJobs/1").SerializeToString()

    with refused(grpc.StatusCode.DEADLINE_EXCEEDED):
        rpc.send(GET, request, seconds=0.1)
    may_go_on.set()


def test_calls_are_counted_by_method_and_code_and_made_up_names_are_one(rpc: Rpc) -> None:
    create(rpc)
    for name in ("A", "B"):
        with refused(grpc.StatusCode.UNIMPLEMENTED):
            rpc.send(f"/{JOB_SERVICE}/{name}", b"")

    assert _count(rpc, f"{JOB_SERVICE}/CreateCustomJob", "OK") == 1
    assert _count(rpc, "other", "UNIMPLEMENTED") == 2


def _count(rpc: Rpc, method: str, code: str) -> float:
    labels = {"method": method, "code": code}
    return rpc.metrics.registry.get_sample_value("training_grpc_request_seconds_count", labels) or 0


# --- odd requests


_CLIENTS_MISTAKE = {
    *(grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED),
    grpc.StatusCode.FAILED_PRECONDITION,
}


def code_of(rpc: Rpc, call: str, message: bytes) -> grpc.StatusCode:
    try:
        rpc.send(call, message)
    except grpc.RpcError as error:
        found: grpc.StatusCode = error.code()
        return found
    return grpc.StatusCode.OK


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(call=st.sampled_from(SERVED), message=st.binary(max_size=200))
def test_no_bytes_are_a_mistake_of_the_service(rpc: Rpc, call: str, message: bytes) -> None:
    assert code_of(rpc, call, message) in {grpc.StatusCode.OK, *_CLIENTS_MISTAKE}


_TEXTS = st.text(max_size=20) | st.sampled_from([PARENT, f"{PARENT}/customJobs/1", "\0", "projects/a\0b"])
_JOBS = st.builds(
    lambda text, number, moment, nested: {
        "display_name": text,
        "name": text,
        "state": number,
        "create_time": {"seconds": moment, "nanos": number},
        "labels": {text: text},
        "job_spec": {
            "worker_pool_specs": [
                {"replica_count": moment, "machine_spec": {"accelerator_type": number}},
                {},
            ],
            "scheduling": {"timeout": {"seconds": moment, "nanos": number}, "strategy": number},
        },
        "error": {"code": number, "details": [{"type_url": text, "value": nested}]},
    },
    _TEXTS,
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=10),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parent=_TEXTS | st.just(PARENT), job=_JOBS)
@example(parent=PARENT, job={"create_time": {"seconds": 2**62}})
def test_no_fields_are_a_mistake_of_the_service(rpc: Rpc, parent: str, job: dict[str, Any]) -> None:
    sent = message_class("CreateCustomJobRequest")(parent=parent, custom_job=job).SerializeToString()

    assert code_of(rpc, f"/{JOB_SERVICE}/CreateCustomJob", sent) in {grpc.StatusCode.OK, *_CLIENTS_MISTAKE}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_TEXTS, size=st.integers(-(2**31), 2**31 - 1), paths=st.lists(_TEXTS, max_size=3))
def test_no_list_is_a_mistake_of_the_service(rpc: Rpc, text: str, size: int, paths: list[str]) -> None:
    fields = {"filter": text, "page_size": size, "page_token": text, "read_mask": {"paths": paths}}
    sent = message_class("ListCustomJobsRequest")(parent=PARENT, **fields).SerializeToString()

    assert code_of(rpc, f"/{JOB_SERVICE}/ListCustomJobs", sent) in {grpc.StatusCode.OK, *_CLIENTS_MISTAKE}


def test_a_search_of_a_made_up_depth_is_refused(serve: Callable[..., Rpc]) -> None:
    rpc = serve()
    deep: bytes = b""
    for _ in range(150):  # a message of fields that are messages of the same field
        deep = b"\x0a" + _varint(len(deep)) + deep
    with refused(grpc.StatusCode.INVALID_ARGUMENT):
        rpc.send(f"/{JOB_SERVICE}/CreateCustomJob", b"\x12" + _varint(len(deep)) + deep)


def _varint(number: int) -> bytes:
    low = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(each | 0x80 for each in low[:-1]), low[-1]])
