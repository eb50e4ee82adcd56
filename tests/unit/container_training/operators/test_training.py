"""Submitting a job exactly once, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.runtime import killing
from container_training.runtime.killing import TaskFate
from tests.support.fakes.fake_service import FakeService, error, make_job
from tests.support.fakes.submissions import make_operator, submit
from training_api.dialects.ml_v1.rules.job_rules import JOB_ID
from training_api.errors import JobConflict, TransportError
from training_api.states import JobState


def test_the_first_attempt_submits_one_job_with_its_own_folder_and_labels(
    service: FakeService, context: Any
) -> None:
    job_id = submit(context, labels={"team": "vision"})

    (job,) = service.jobs.values()
    assert job.job_id == job_id
    assert JOB_ID.fullmatch(job_id)
    assert job.training_input is not None
    assert job.training_input.args == ["--epochs", "3"]
    assert job.training_input.region == "us-central1"
    assert job.training_input.job_dir == f"gs://bucket/jobs/{job_id}"
    labels = job.labels or {}
    assert (labels["airflow-dag"], labels["airflow-task"], labels["airflow-run"]) == (
        "train_digits",
        "train-submit",
        "manual__1",
    )
    assert (labels["team"], len(labels["airflow-owner"])) == ("vision", 32)
    pushed = {call.kwargs["key"]: call.kwargs["value"] for call in context["ti"].xcom_push.call_args_list}
    assert pushed == {"job": job.to_wire(), "reused": False, "training_conn_id": "training_default"}


def test_the_intent_is_stored_before_the_call(service: FakeService, context: Any) -> None:
    stored: list[Any] = []
    service.before_get = lambda: stored.append(dict(context["task_state_store"]))

    job_id = submit(context)

    assert stored[0]["job_intent"]["job_id"] == job_id
    assert service.requests[0][0] == "GET"


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.PREPARING, JobState.RUNNING, JobState.SUCCEEDED])
def test_a_retry_adopts_its_own_job_that_lives_or_succeeded(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)

    assert submit(context) == first
    assert len(service.jobs) == 1


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED, JobState.CANCELLING])
def test_a_retry_after_a_bad_end_submits_the_next_attempt(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)

    second = submit(context)

    assert (first[-2:], second[-2:]) == ("_1", "_2")
    assert submit(context) == second
    assert len(service.jobs) == 2


def test_a_changed_request_is_refused_while_the_old_job_runs(service: FakeService, context: Any) -> None:
    submit(context)

    with pytest.raises(AirflowFailException, match="is still QUEUED with another request") as refused:
        submit(context, args=["--epochs", 4])

    assert isinstance(refused.value.__cause__, JobConflict)
    assert len(service.jobs) == 1


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLING])
def test_a_changed_request_gets_a_new_job_once_the_old_one_has_ended(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)

    second = submit(context, args=["--epochs", 4])

    assert second != first
    assert submit(context, args=["--epochs", 4]) == second


def test_a_lost_answer_leads_to_one_job(service: FakeService, context: Any) -> None:
    service.lose_next_answer_to_create = True

    job_id = submit(context)

    assert list(service.jobs) == [job_id]


def test_a_task_that_died_right_after_the_call_adopts_the_job(service: FakeService, context: Any) -> None:
    operator = make_operator()
    context["ti"].xcom_push.side_effect = SystemExit
    with pytest.raises(SystemExit):
        operator.execute(context)

    context["ti"].xcom_push.side_effect = None
    assert [submit(context)] == list(service.jobs)


@pytest.mark.parametrize("state", list(JobState))
def test_somebody_elses_job_id_is_a_conflict_and_stays_untouched(
    service: FakeService, context: Any, state: JobState
) -> None:
    service.add(make_job(job_id="mine", state=state, labels={"airflow-owner": "another"}))

    with pytest.raises(AirflowFailException, match="JobConflict: job id 'mine' is taken") as refused:
        submit(context, job_id="mine")

    assert isinstance(refused.value.__cause__, JobConflict)
    assert service.count("POST", "/jobs") == 0


@pytest.mark.parametrize("state", [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED])
def test_a_run_that_was_deleted_and_made_again_trains_again(
    service: FakeService, context: Any, state: JobState
) -> None:
    first = submit(context)
    service.move(first, state)
    context["task_state_store"].clear()

    second = submit(context)

    assert (first[-2:], second[-2:]) == ("_1", "_2")


def test_a_live_job_of_a_deleted_run_is_not_taken_over(service: FakeService, context: Any) -> None:
    submit(context)
    context["task_state_store"].clear()

    with pytest.raises(AirflowFailException, match="an earlier run of the same name"):
        submit(context)


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.SUCCEEDED])
def test_a_store_that_forgets_at_success_does_not_make_a_second_job(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch, state: JobState
) -> None:
    """A person clears a task of a run that succeeded."""
    monkeypatch.setenv("AIRFLOW__STATE_STORE__CLEAR_ON_SUCCESS", "True")
    first = submit(context)
    service.move(first, state)
    context["task_state_store"].clear()

    assert submit(context) == first
    assert list(service.jobs) == [first]


def test_a_conflict_that_comes_between_look_and_call_is_named_too(service: FakeService, context: Any) -> None:
    service.faults = [error(404, "NOT_FOUND", "none")]
    service.add(make_job(job_id="mine", labels={}))

    with pytest.raises(AirflowFailException, match="JobConflict: job id 'mine' is taken"):
        submit(context, job_id="mine")


def test_an_id_that_is_taken_but_cannot_be_read_does_not_loop(service: FakeService, context: Any) -> None:
    service.faults = [error(404, "NOT_FOUND", "none"), error(409, "ALREADY_EXISTS", "taken")] * 9

    with pytest.raises(AirflowFailException, match="no job with this id can be read"):
        submit(context)


def test_without_a_state_store_a_retry_still_finds_its_job(service: FakeService, context: Any) -> None:
    del context["task_state_store"]
    first = submit(context)
    service.move(first, JobState.FAILED)

    second = submit(context)

    assert submit(context) == second
    assert list(service.jobs) == [first, second]


def test_mapped_tasks_and_other_runs_get_jobs_of_their_own(service: FakeService, context: Any) -> None:
    ids = set()
    for context["ti"].map_index in (-1, 0, 1):
        context["task_state_store"].clear()
        ids.add(submit(context))

    assert len(ids) == 3


def test_a_service_that_is_down_for_a_moment_is_asked_again(
    service: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    service.faults = [
        httpx.ConnectError("refused"),
        error(503, "UNAVAILABLE", "starting"),
        None,
        error(429, "X", "busy"),
    ]

    job_id = submit(context)

    assert list(service.jobs) == [job_id]
    assert any("asking again in" in line for line in log_lines)


def test_a_service_that_stays_down_leaves_the_task_to_airflows_retries(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("container_training.runtime.job_submission._PATIENCE_SECONDS", 0.0)
    service.faults = [httpx.ConnectError("refused")] * 9

    with pytest.raises(TransportError, match=r"training.test:8470 did not answer"):
        submit(context)


@pytest.mark.parametrize(
    ("fate", "state"),
    [
        (TaskFate.ENDED, JobState.CANCELLING),
        (TaskFate.DONE, JobState.CANCELLING),
        (TaskFate.RESTARTED, JobState.CANCELLING),
        # Another try may have the job already.
        (TaskFate.REPEATED, JobState.QUEUED),
        (TaskFate.UNKNOWN, JobState.QUEUED),
    ],
)
def test_a_kill_during_the_call_cancels_the_job_that_the_call_made_unless_a_try_may_have_it(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch, fate: TaskFate, state: JobState
) -> None:
    operator = make_operator()
    monkeypatch.setattr(killing, "fate_of", lambda _: fate)
    service.before_get = lambda: (setattr(service, "before_get", lambda: None), operator.on_kill())

    operator.execute(context)

    (job,) = service.jobs.values()
    assert job.state is state


def test_a_kill_leaves_somebody_elses_job_alone(
    service: FakeService, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = make_operator()
    monkeypatch.setattr(killing, "fate_of", lambda _: TaskFate.ENDED)
    job_id = operator.execute(context)
    service.jobs[job_id] = service.jobs[job_id].model_copy(update={"labels": {"airflow-owner": "another"}})

    operator.on_kill()

    assert service.jobs[job_id].state is JobState.QUEUED


def test_a_job_with_a_limit_of_cost_and_no_price_is_not_submitted(service: FakeService, context: Any) -> None:
    with pytest.raises(
        AirflowFailException, match=r"InvalidPrice: extra\.prices of .* no price for 'n1-standard-4'"
    ):
        submit(context, max_cost="5")

    assert service.jobs == {}


def test_an_empty_limit_of_a_template_is_none(service: FakeService, context: Any) -> None:
    submit(context, max_cost="")

    assert len(service.jobs) == 1
