"""What watchers ask the service, and its answers: the rules of their fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from training_api.dialects.ml_v1.job_rows import JobRow, SearchJobsResponse
from training_api.fleet.wire import MAX_SEARCH_PAGE, Curve, SearchJobsRequest, Span
from training_api.states import JobState

NOON = "2026-11-20T12:00:00Z"


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"pageSize": 0},
        {"pageSize": MAX_SEARCH_PAGE},
        {"dags": []},
        {"changedAfter": NOON},
    ],
)
def test_a_good_search_is_taken(sent: dict[str, Any]) -> None:
    assert (
        SearchJobsRequest.model_validate(sent).to_wire().items() >= ({"filter": "", "pageToken": ""}).items()
    )


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"pageSize": 2**31}, "pageSize"),
        ({"dags": ["\x00"]}, "dags"),
        ({"pageSize": True}, "pageSize"),
        ({"dags": ["d"] * 10_001}, "dags"),
        ({"dags": "d"}, "dags"),
        ({"changedAfter": 1_700_000_000}, "changedAfter"),
        ({"changedAfter": "2026-11-20T12:00:00"}, "changedAfter"),
        ({"changedAfter": "yesterday"}, "changedAfter"),
        ({"state": "FAILED"}, "state"),
    ],
)
def test_a_bad_search_is_refused_by_its_field(sent: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SearchJobsRequest.model_validate(sent)

    assert [error["loc"][0] for error in caught.value.errors()] == [field]


def test_all_dags_and_no_dag_are_two_questions() -> None:
    assert SearchJobsRequest().dags is None
    assert SearchJobsRequest.model_validate_json(SearchJobsRequest(dags=[]).model_dump_json()).dags == []


def test_a_page_survives_the_way_to_the_watcher() -> None:
    row = JobRow(job_id="a", state=JobState.RUNNING, create_time=datetime(2026, 11, 20, 12, tzinfo=UTC))
    page = SearchJobsResponse(jobs=[row], total=7, states={JobState.RUNNING: 7})

    assert SearchJobsResponse.model_validate(page.to_wire()) == page
    assert page.to_wire()["states"] == {"RUNNING": 7}


def test_a_span_whose_end_nobody_saw_says_nothing_of_it() -> None:
    span = Span.model_validate({"kind": "PULL", "name": "image", "startTime": NOON})

    assert set(span.to_wire()) == {"kind", "name", "attempt", "trialId", "startTime", "outOfMemory", "pinned"}


def test_a_value_that_was_no_number_keeps_its_place_in_a_curve() -> None:
    curve = Curve(tag="loss", steps=[1, 2, 3], values=[0.5, None, 0.25], times=[1.0, 2.0, 3.0])

    assert Curve.model_validate(curve.to_wire()).values == [0.5, None, 0.25]
