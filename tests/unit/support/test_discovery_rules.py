"""What Google's documents do not have is found, and what they have is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.discovery_rules import method_of
from tests.support.fakes.custom_jobs import make_custom_job, make_pool

URL = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/customJobs"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (make_custom_job(), None),
        ({**make_custom_job(), "prority": 1}, "body has no field prority"),
        (make_custom_job(make_pool(machine_type=7)), "machineType must be of type string, got 7"),
        (make_custom_job({**make_pool(), "replicaCount": "two"}), "of the format int64, got 'two'"),
        (make_custom_job(scheduling={"timeout": "1h"}), "of the format google-duration, got '1h'"),
        (make_custom_job(scheduling={"strategy": "CHEAP"}), "strategy must be one of"),
        (make_custom_job(labels={"a": True}), "labels.a must be of type string"),
        ({**make_custom_job(), "state": "JOB_STATE_QUEUED"}, "body.state is the service's to set"),
        ({"displayName": "job"}, "body.jobSpec is required"),
        ([], "body must be of type object"),
    ],
)
def test_each_fault_of_a_body_is_named(body: Any, fault: str | None) -> None:
    found = method_of("POST", URL).faults_of_request({}, body)

    assert len(found) == (fault is not None)
    assert fault is None or fault in found[0]


def test_each_fault_of_a_query_is_named() -> None:
    listing = method_of("GET", URL)

    assert listing.faults_of_request({"pageSize": "5", "filter": "a", "alt": "json"}, None) == []
    assert listing.faults_of_request({"size": "5"}, None) == ["there is no query parameter size"]
    assert listing.faults_of_request({"pageSize": "x"}, None) == [
        "query parameter pageSize must be an integer, got 'x'"
    ]
    assert listing.faults_of_request({}, {}) == ["there is a body"]


def test_an_answer_may_have_what_the_service_sets() -> None:
    listing = method_of("GET", URL)

    assert listing.faults_of_answer({"customJobs": [{"state": "JOB_STATE_QUEUED"}]}) == []
    assert len(listing.faults_of_answer({"customJobs": [{"state": "DONE"}, {"when": 1}]})) == 2


@pytest.mark.parametrize(
    ("verb", "url"),
    [
        ("PATCH", URL),
        ("GET", URL.replace("us-central1-", "mars-")),
        ("GET", URL.replace("customJobs", "customJob")),
        ("POST", f"{URL}/1:stop"),
    ],
)
def test_a_method_that_is_nowhere_is_an_error(verb: str, url: str) -> None:
    with pytest.raises(AssertionError, match="no document of"):
        method_of(verb, url)
