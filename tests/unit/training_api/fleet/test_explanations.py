"""Causes in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from training_api.causes import Cause
from training_api.fleet.explanations import explain, title_of
from training_api.fleet.wire import JobReason
from training_api.states import JobState

ROOT = Path(__file__).resolve().parents[4]
OF_REPLICA = {
    cause: JobReason(cause=cause, replica="worker 1", exit_code=code)
    for cause, code in (
        (Cause.OUT_OF_MEMORY, 137),
        (Cause.PROGRAM_ERROR, 3),
        (Cause.COMMAND, 127),
        (Cause.PACKAGE, 66),
        (Cause.INTERRUPTED, 143),
    )
}


def text_of(reason: JobReason | None) -> str:
    explained = explain(JobState.FAILED, reason)
    assert explained is not None
    return explained.text


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.PREPARING, JobState.RUNNING, JobState.SUCCEEDED])
def test_a_job_that_goes_on_or_went_well_is_not_explained(state: JobState) -> None:
    assert explain(state, OF_REPLICA[Cause.PROGRAM_ERROR]) is None


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLING, JobState.CANCELLED])
def test_a_job_without_a_reason_ended_for_another_one(state: JobState) -> None:
    explained = explain(state, None)

    assert explained is not None
    assert (explained.cause, explained.title) == (Cause.UNKNOWN, "Another reason")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause.PROGRAM_ERROR, "replica worker 1 ended by itself with the status 3"),
        (
            Cause.COMMAND,
            "the replica worker 1 is to run, or it cannot be executed: the program was not found.",
        ),
        (Cause.PACKAGE, "the status 66 before the trainer began: a package is not in the object store"),
        (Cause.INTERRUPTED, "from outside with the status 143 (SIGTERM)"),
        (Cause.OUT_OF_MEMORY, "The replica worker 1 wanted more memory"),
    ],
)
def test_the_words_name_the_replica_and_what_its_status_means(cause: Cause, words: str) -> None:
    assert words in text_of(OF_REPLICA[cause])


def test_a_replica_that_never_started_has_no_status() -> None:
    reason = JobReason(cause=Cause.COMMAND, replica="master 0")

    assert text_of(reason).endswith("cannot be executed: the engine's message says what.")


@pytest.mark.parametrize(("failed", "words"), [(1, "1 trial has failed. "), (7, "7 trials have failed. ")])
def test_a_study_fails_for_the_reason_of_its_last_trial(failed: int, words: str) -> None:
    reason = JobReason(cause=Cause.METRIC, failed_trials=failed)

    assert text_of(reason) == f"{words}The last of them: {text_of(JobReason(cause=Cause.METRIC))}"


@pytest.mark.parametrize("cause", Cause)
def test_no_words_are_left_to_be_filled_in(cause: Cause) -> None:
    explained = explain(JobState.FAILED, OF_REPLICA.get(cause, JobReason(cause=cause, replica="master 0")))

    assert explained is not None
    assert title_of(cause) == explained.title
    assert not re.search(r"[{}]|None|  ", f"{explained.text} {explained.fix}")


@pytest.mark.parametrize("cause", Cause)
def test_the_docs_have_what_the_words_refer_to(cause: Cause) -> None:
    explained = explain(JobState.FAILED, JobReason(cause=cause))

    assert explained is not None
    path, _, anchor = explained.docs.partition("#")
    headings = re.findall(r"^#+\s+(.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
