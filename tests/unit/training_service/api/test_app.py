"""The app as a whole: by which names it is asked, and what it counts of each request."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

PARENT = "/v1/projects/demo-project/jobs"


def test_request_under_a_foreign_host_name_is_refused(http: TestClient) -> None:
    response = http.get(PARENT, headers={"host": "evil.example"})

    error = response.json()["error"]
    assert (response.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    assert "got 'evil.example'; TRAINING_ALLOWED_HOSTS adds names" in error["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8470", "[::1]:8470", "host.docker.internal:8470"])
def test_the_names_of_this_machine_are_known(http: TestClient, host: str) -> None:
    assert http.get(PARENT, headers={"host": host}).status_code == 200


def test_a_name_of_the_settings_is_known_too(serve: Callable[..., TestClient]) -> None:
    http = serve(allowed_hosts=["training.test"])

    assert http.get(PARENT, headers={"host": "training.test"}).status_code == 200
    assert http.get(PARENT, headers={"host": "other.test"}).status_code == 400


def test_requests_are_counted_by_route_and_not_by_name(http: TestClient) -> None:
    http.get(f"{PARENT}/one")
    http.get(f"{PARENT}/two")
    http.get("/v1/nothing")

    text = http.get("/metrics").text
    route = 'method="GET",route="/v1/projects/{project}/jobs/{job_id}",status="404"'
    assert f"training_request_seconds_count{{{route}}} 2.0" in text
    assert 'route="unknown"' in text


def test_faults_can_be_set_only_where_the_service_was_started_for_it(
    serve: Callable[..., TestClient],
) -> None:
    assert serve().get("/faults").status_code == 404
    assert serve(fault_injection=True).get("/faults").json() == {"faults": []}


def test_a_method_that_a_client_made_up_is_no_series_of_its_own(http: TestClient) -> None:
    for method in ("FOO", "BAR"):
        assert http.request(method, PARENT).status_code == 405

    text = http.get("/metrics").text
    assert 'method="OTHER"' in text
    assert "FOO" not in text


@pytest.mark.parametrize("path", [f"{PARENT}/%00", f"{PARENT}/job%00:cancel", f"/logs/{PARENT[4:]}/%00"])
def test_a_path_that_postgresql_cannot_ask_for_is_refused(http: TestClient, path: str) -> None:
    response = http.request("POST" if path.endswith(":cancel") else "GET", path)

    assert response.status_code == 400
    assert "the path must not contain NUL, got '%00'; leave it out" in response.json()["error"]["message"]


def test_a_body_that_is_too_long_is_counted_as_a_refusal(http: TestClient) -> None:
    assert http.post(PARENT, content=b" " * 2**20 + b"x").status_code == 400

    assert 'method="POST",route="unknown",status="400"} 1.0' in http.get("/metrics").text
