"""Questions that the service takes, and those that it does not."""

from __future__ import annotations

import pytest

from container_training.dashboard.problems import problem_of
from container_training.dashboard.service_side.questions import RefusedQuestion, question
from training_api.fleet.wire import SearchJobsRequest


def test_a_question_is_what_the_fields_say() -> None:
    asked = question(SearchJobsRequest, filter="state=RUNNING", page_size=1)

    assert asked == SearchJobsRequest(filter="state=RUNNING", page_size=1)


def test_a_question_that_the_service_does_not_take_names_its_fields_and_the_way_out() -> None:
    with pytest.raises(RefusedQuestion) as caught:
        question(SearchJobsRequest, dags=["d"] * 10_001, page_size="many")

    status, problem = problem_of(caught.value)
    assert status == 400
    assert problem["message"].startswith("dags: List should have at most 10000 items")
    assert "page_size: " in problem["message"] or "pageSize: " in problem["message"]
    assert problem["advice"].startswith("Of dags: choose one DAG")
