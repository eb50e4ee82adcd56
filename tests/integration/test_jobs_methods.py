"""Labels, policies and locations over HTTP: plain requests and Google's client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError

from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support import web

PROJECT = "projects/demo-project"
JOB = f"{PROJECT}/jobs/job"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveService]:
    """One service for all tests of this file."""
    with run_service(tmp_path_factory.mktemp("service")) as service:
        create(service, "job")
        yield service


@pytest.fixture(scope="module")
def http(shared: LiveService) -> Iterator[httpx.Client]:
    with web.client(base_url=f"{shared.endpoint}/v1/") as http:
        yield http


@pytest.fixture(scope="module")
def projects(shared: LiveService) -> Iterator[Any]:
    """google-api-python-client with the bundled discovery document."""
    ml = discovery.build(
        "ml",
        "v1",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"{shared.endpoint}/"},
        cache_discovery=False,
    )
    yield ml.projects()
    ml.close()


def create(service: LiveService, job_id: str) -> None:
    body = {"jobId": job_id, "trainingInput": {"masterConfig": {"imageUri": IMAGE}}}
    answer = web.post(f"{service.endpoint}/v1/{PROJECT}/jobs", json=body)
    assert answer.status_code == 200, answer.text


def error_of(response: httpx.Response) -> tuple[int, str, list[str]]:
    """Return code, status and the fields that the error names."""
    error = response.json()["error"]
    assert error["code"] == response.status_code
    details = error.get("details", [{"fieldViolations": []}])
    return error["code"], error["status"], [violation["field"] for violation in details[0]["fieldViolations"]]


def test_labels_are_updated_and_cleared_as_gcloud_does_it(http: httpx.Client) -> None:
    updated = http.patch(JOB, params={"updateMask": "labels"}, json={"labels": {"env": "dev"}})
    read = http.get(JOB).json()
    cleared = http.patch(JOB, params={"updateMask": "labels"}, json={"labels": {}})

    assert updated.json()["labels"] == {"env": "dev"}
    assert read["labels"] == {"env": "dev"}
    assert "labels" not in cleared.json()


def test_stale_etag_is_aborted(shared: LiveService, http: httpx.Client) -> None:
    create(shared, "contended")
    name = f"{PROJECT}/jobs/contended"
    body = {"labels": {"env": "dev"}, "etag": "AAAAAAAAAAA="}

    response = http.patch(name, params={"updateMask": "labels,etag"}, json=body)

    assert error_of(response) == (409, "ABORTED", [])


@pytest.mark.parametrize(
    ("params", "body", "field"),
    [
        ({}, {"labels": {}}, "updateMask"),
        ({"updateMask": "state"}, {"state": "FAILED"}, "updateMask"),
        ({"update_mask": "training_input"}, {}, "updateMask"),
        ({"updateMask": "labels"}, {"labels": {"Env": "dev"}}, "labels"),
        ({"updateMask": "labels"}, {"labels": {"env": 1}}, "labels.env"),
        ({"updateMask": "labels"}, {"lables": {}}, "lables"),
    ],
)
def test_bad_patch_names_the_field(
    http: httpx.Client, params: dict[str, str], body: dict[str, Any], field: str
) -> None:
    response = http.patch(JOB, params=params, json=body)

    assert error_of(response) == (400, "INVALID_ARGUMENT", [field])


def test_policy_is_read_changed_and_written_once(http: httpx.Client) -> None:
    empty = http.get(f"{JOB}:getIamPolicy").json()
    binding = {"role": "roles/ml.viewer", "members": ["user:ann@example.com"]}
    request = {"policy": {"bindings": [binding], "etag": empty["etag"]}}

    written = http.post(f"{JOB}:setIamPolicy", json=request).json()
    stale = http.post(f"{JOB}:setIamPolicy", json=request)

    assert empty.keys() == {"etag"}
    assert written == {"bindings": [binding], "etag": written["etag"], "version": 1}
    assert http.get(f"{JOB}:getIamPolicy").json() == written
    assert error_of(stale) == (409, "ABORTED", [])


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "fields"),
    [
        (
            "GET",
            f"{JOB}:getIamPolicy?options.requestedPolicyVersion=2",
            None,
            400,
            ["options.requestedPolicyVersion"],
        ),
        ("GET", f"{PROJECT}/jobs/absent:getIamPolicy", None, 404, []),
        ("POST", f"{PROJECT}/jobs/absent:setIamPolicy", {"policy": {}}, 404, []),
        ("POST", f"{JOB}:setIamPolicy", {}, 400, ["policy"]),
        ("POST", f"{JOB}:setIamPolicy", {"polcy": {}}, 400, ["polcy"]),
        ("POST", f"{JOB}:testIamPermissions", {"permissions": ["ml.jobs.fly"]}, 400, ["permissions"]),
        ("GET", f"{PROJECT}/locations/mars-north1", None, 404, []),
        ("GET", f"{PROJECT}/locations?pageToken=x", None, 400, ["pageToken"]),
        ("GET", "projects/no%20project/locations", None, 400, ["project"]),
        ("GET", f"projects/{'p' * 200}/jobs", None, 400, ["project"]),
    ],
)
def test_bad_request_is_refused_in_the_form_of_the_api(
    http: httpx.Client, method: str, path: str, body: Any, code: int, fields: list[str]
) -> None:
    status = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND"}[code]

    response = http.request(method, path, json=body)

    assert error_of(response) == (code, status, fields)


class TestGoogleClient:
    def test_labels_with_an_etag(self, projects: Any, shared: LiveService) -> None:
        create(shared, "labelled")
        name = f"{PROJECT}/jobs/labelled"

        with pytest.raises(HttpError) as caught:
            projects.jobs().patch(name=name, updateMask="labels", body={"etag": "x"}).execute()
        patched = projects.jobs().patch(name=name, updateMask="labels", body={"labels": {"a": "b"}}).execute()

        assert caught.value.resp.status == 409
        assert "has changed since etag 'x' was read" in caught.value.reason
        assert patched["labels"] == {"a": "b"}

    def test_conditional_policy(self, projects: Any, shared: LiveService) -> None:
        create(shared, "guarded")
        name = f"{PROJECT}/jobs/guarded"
        jobs = projects.jobs()
        policy = jobs.getIamPolicy(resource=name, options_requestedPolicyVersion=3).execute()
        binding = {
            "role": "roles/ml.jobOwner",
            "members": ["serviceAccount:ci@demo-project.iam.gserviceaccount.com"],
            "condition": {"title": "soon", "expression": "request.time < timestamp('2030-01-01T00:00:00Z')"},
        }

        policy |= {"bindings": [binding], "version": 3}
        jobs.setIamPolicy(resource=name, body={"policy": policy}).execute()

        read = jobs.getIamPolicy(resource=name, options_requestedPolicyVersion=3).execute()
        assert (read["bindings"], read["version"]) == ([binding], 3)
        with pytest.raises(HttpError, match="must be 3"):
            jobs.getIamPolicy(resource=name, options_requestedPolicyVersion=1).execute()

    def test_permissions_of_a_job_and_of_none(self, projects: Any) -> None:
        body = {"permissions": ["ml.jobs.get", "ml.jobs.cancel"]}

        held = projects.jobs().testIamPermissions(resource=JOB, body=body).execute()
        of_none = projects.jobs().testIamPermissions(resource=f"{PROJECT}/jobs/absent", body=body).execute()

        assert held == body
        assert of_none == {}

    def test_locations_page_by_page(self, projects: Any) -> None:
        locations = projects.locations()
        request = locations.list(parent=PROJECT, pageSize=5)
        names: list[str] = []
        while request is not None:
            page = request.execute()
            names += [location["name"] for location in page["locations"]]
            request = locations.list_next(request, page)

        found = locations.get(name=f"{PROJECT}/locations/us-central1").execute()

        assert found == {"name": f"{PROJECT}/locations/us-central1", "capabilities": [{"type": "TRAINING"}]}
        assert len(names) == len(set(names)) == 13
        assert found["name"] in names
