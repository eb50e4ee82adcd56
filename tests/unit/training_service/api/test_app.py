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
