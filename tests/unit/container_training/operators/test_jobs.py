"""Cancelling and listing jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.jobs import CancelTrainingJobOperator, ListTrainingJobsOperator
from tests.support.fakes.fake_service import FakeService, make_job
from training_api.states import JobState


def test_a_running_job_is_cancelled(service: FakeService, context: Any) -> None:
    service.add(make_job(state=JobState.RUNNING))
    operator = CancelTrainingJobOperator(task_id="cancel", job_id="digits_1")

    assert operator.execute(context) == "CANCELLING"
    assert service.count("POST", ":cancel") == 1
    assert operator.report is not None
    assert operator.report.state == "CANCELLING"


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED])
def test_a_job_that_has_ended_stays_as_it_is(service: FakeService, context: Any, state: JobState) -> None:
    service.add(make_job(state=state))

    assert CancelTrainingJobOperator(task_id="cancel", job_id="digits_1").execute(context) == state


def test_a_job_that_does_not_exist_cannot_be_cancelled(service: FakeService, context: Any) -> None:
    with pytest.raises(AirflowFailException, match="JobNotFound"):
        CancelTrainingJobOperator(task_id="cancel", job_id="digits_1").execute(context)


@pytest.mark.parametrize(("limit", "expected", "requests"), [(250, 250, 3), ("300", 260, 3), (0, 0, 0)])
def test_jobs_are_listed_over_pages_up_to_the_limit(
    service: FakeService,
    context: Any,
    log_lines: Sequence[str],
    limit: Any,
    expected: int,
    requests: int,
) -> None:
    for number in range(260):
        service.add(make_job(job_id=f"job_{number}", state=JobState.RUNNING))

    jobs = ListTrainingJobsOperator(task_id="list", limit=limit).execute(context)

    assert len({job["jobId"] for job in jobs}) == len(jobs) == expected
    assert service.count("GET", "/jobs") == requests
    assert (f"{expected} jobs, and there are more" in log_lines) is (expected == 250)


def test_a_filter_goes_to_the_service(service: FakeService, context: Any) -> None:
    service.add(make_job(job_id="one", state=JobState.RUNNING))
    service.add(make_job(job_id="two", state=JobState.FAILED))

    (job,) = ListTrainingJobsOperator(task_id="list", filter="state=FAILED").execute(context)

    assert (job["jobId"], job["state"]) == ("two", "FAILED")
