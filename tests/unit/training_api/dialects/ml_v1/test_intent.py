"""What a task means to submit, and what follows from a look at the job that has its id."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.fake_service import make_job
from training_api.dialects.ml_v1.intent import (
    Intent,
    Step,
    is_detached,
    is_of_task,
    is_owned,
    next_step,
    owner_labels,
    owner_within,
    request_hash,
)
from training_api.dialects.ml_v1.resources import Job
from training_api.errors import JobConflict
from training_api.job.job_id import TaskKey
from training_api.states import JobState

KEY = TaskKey(dag_id="Train Digits", task_id="train.submit", run_id="manual__1")
INTENT = Intent(request_hash="hash-1", job_id="digits_1", owner="token")
LIVING = [JobState.QUEUED, JobState.PREPARING, JobState.RUNNING]


def job_of(intent: Intent = INTENT, key: TaskKey = KEY, **changes: Any) -> Job:
    """Return the job that a task has submitted with ``intent``."""
    return make_job(**{"labels": owner_labels(key, intent)} | changes)


# --- what a task remembers


def test_an_intent_survives_in_the_tasks_store() -> None:
    assert Intent.from_json(INTENT.to_json()) == INTENT


@pytest.mark.parametrize(
    "stored", [None, "text", [], {}, {"job_id": "a"}, INTENT.to_json() | {"mood": "good"}]
)
def test_what_is_no_intent_is_as_if_nothing_was_stored(stored: object) -> None:
    assert Intent.from_json(stored) is None


def test_the_next_attempt_keeps_its_owner_and_counts_on() -> None:
    following = INTENT.next("digits_2", "hash-2")

    assert following == Intent(request_hash="hash-2", job_id="digits_2", owner="token", attempt=2)


def test_the_hash_tells_requests_apart_and_not_their_ids() -> None:
    job = make_job()

    assert request_hash(job) == request_hash(job.model_copy(update={"job_id": "other"}))
    assert request_hash(job) != request_hash(job.model_copy(update={"labels": {"model": "digits"}}))
    assert len(request_hash(job)) == 16


# --- whose job it is


def test_the_labels_of_an_owner_are_those_of_the_task_in_the_apis_form() -> None:
    labels = owner_labels(KEY, INTENT, detached=True)

    assert labels["airflow-owner"] == "token"
    assert labels["airflow-request"] == "hash-1"
    assert labels["airflow-detached"] == "true"
    assert labels["airflow-dag"] != KEY.dag_id  # capital letters and blanks are no label
    assert is_of_task(make_job(labels=labels), KEY)


@pytest.mark.parametrize(("owner", "expected"), [("token", True), ("other", False), ("", False)])
def test_a_job_is_owned_by_its_token_only(owner: str, expected: bool) -> None:
    assert is_owned(job_of(), owner) is expected


def test_nobody_owns_a_job_without_labels() -> None:
    assert not is_owned(make_job(labels=None), "")
    assert not is_of_task(make_job(labels=None), KEY)
    assert not is_detached(make_job(labels=None))


def test_the_owner_is_told_to_tasks_of_the_same_run_only() -> None:
    assert owner_within(job_of(), KEY.dag_id, KEY.run_id) == "token"
    assert owner_within(job_of(), KEY.dag_id, "manual__2") == ""
    assert owner_within(job_of(), "other", KEY.run_id) == ""


# --- what to do about it


def test_without_a_job_one_is_submitted() -> None:
    assert next_step(KEY, INTENT, "hash-1", None) is Step.SUBMIT


@pytest.mark.parametrize("state", [*LIVING, JobState.SUCCEEDED, None])
def test_our_own_job_with_the_same_request_is_adopted(state: JobState | None) -> None:
    assert next_step(KEY, INTENT, "hash-1", job_of(state=state)) is Step.ADOPT


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLING, JobState.CANCELLED])
@pytest.mark.parametrize("wanted", ["hash-1", "hash-2"])
def test_our_own_job_without_a_result_is_followed_by_another(state: JobState, wanted: str) -> None:
    assert next_step(KEY, INTENT, wanted, job_of(state=state)) is Step.NEXT_ATTEMPT


def test_a_result_of_another_request_is_not_taken_for_this_one() -> None:
    assert next_step(KEY, INTENT, "hash-2", job_of(state=JobState.SUCCEEDED)) is Step.NEXT_ATTEMPT


@pytest.mark.parametrize("state", LIVING)
def test_our_own_job_that_runs_with_another_request_is_left_alone(state: JobState) -> None:
    with pytest.raises(
        JobConflict, match=r"still .* submitted with request hash-1, .* asks for request hash-2"
    ):
        next_step(KEY, INTENT, "hash-2", job_of(state=state))


@pytest.mark.parametrize("state", [*LIVING, JobState.SUCCEEDED, JobState.FAILED])
def test_a_job_of_somebody_else_is_never_touched(state: JobState) -> None:
    with pytest.raises(JobConflict, match="is taken by a job that this task did not submit"):
        next_step(KEY, INTENT, "hash-1", make_job(state=state))


def test_an_ended_job_of_the_same_task_whose_token_is_forgotten_is_history() -> None:
    forgotten = Intent(request_hash="hash-1", job_id="digits_1", owner="new-token")

    assert next_step(KEY, forgotten, "hash-1", job_of(state=JobState.SUCCEEDED)) is Step.NEXT_ATTEMPT
    with pytest.raises(JobConflict, match="did not submit"):
        next_step(KEY, forgotten, "hash-1", job_of(state=JobState.RUNNING))
