"""``readMask``: which fields of a resource are answered."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.custom_jobs import make_custom_job
from training_api.errors import InvalidRequest
from training_service.api.vertex_v1.read_mask import masked, masked_page, read_mask

JOB = make_custom_job(labels={"team": "a"}, scheduling={"timeout": "3s", "strategy": "SPOT"}) | {"name": "n"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", JOB),
        ("*", JOB),
        ("name,*", JOB),
        ("name", {"name": "n"}),
        ("display_name, labels", {"displayName": "job", "labels": {"team": "a"}}),
        ("jobSpec.scheduling.timeout", {"jobSpec": {"scheduling": {"timeout": "3s"}}}),
        (
            "job_spec.scheduling.timeout,jobSpec.scheduling",
            {"jobSpec": {"scheduling": {"timeout": "3s", "strategy": "SPOT"}}},
        ),
        ("error", {}),
    ],
)
def test_a_mask_names_the_fields_that_are_answered(text: str, found: dict[str, Any]) -> None:
    assert masked(JOB, read_mask(text, "CustomJob")) == found


@pytest.mark.parametrize(
    "text",
    [
        *("nope", "name,", "labels.team", "jobSpec.workerPoolSpecs.replicaCount", "name.x", "."),
        *("createTime.seconds", "jobSpec.scheduling.timeout.seconds"),
    ],
)
def test_a_field_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="readMask: must name fields of CustomJob: name, displayName, "):
        read_mask(text, "CustomJob")


def test_a_mask_names_a_bounded_number_of_fields() -> None:
    with pytest.raises(InvalidRequest, match="must name at most 100 fields, got 101"):
        read_mask(",".join(["name"] * 101), "CustomJob")


def test_a_page_has_masked_resources_and_nothing_that_is_empty() -> None:
    paths = read_mask("name", "CustomJob")

    assert masked_page("customJobs", [JOB], paths, "7") == {
        "customJobs": [{"name": "n"}],
        "nextPageToken": "7",
    }
    assert masked_page("customJobs", [], paths, "") == {}
