"""Which jobs a lost answer made beside the one that is waited for."""

from __future__ import annotations

import pytest

from container_training.work.waiting.duplicates import duplicates
from training_api.dialects.ml_v1.resources import Job
from training_api.job.labels import OWNER_LABEL
from training_api.states import JobState


def job(job_id: str, state: JobState = JobState.RUNNING, owner: str = "me") -> Job:
    return Job(job_id=job_id, state=state, labels={OWNER_LABEL: owner} if owner else None)


def test_a_second_job_of_the_owner_is_one_whichever_comes_first() -> None:
    first, second, third = job("1"), job("2", JobState.QUEUED), job("3", JobState.PREPARING)

    assert list(duplicates([first, second, third], ["1"])) == [(second, "1"), (third, "1")]
    assert list(duplicates([third, second, first], {"2": []})) == [(third, "2"), (first, "2")]


@pytest.mark.parametrize(
    "state", [state for state in JobState if state is JobState.CANCELLING or state.is_terminal]
)
def test_a_job_that_ends_is_no_duplicate_and_has_none(state: JobState) -> None:
    assert list(duplicates([job("1"), job("2", state)], ["1"])) == []
    assert list(duplicates([job("1", state), job("2")], ["1"])) == []


@pytest.mark.parametrize(
    ("listed", "waited_for"),
    [
        ([job("1"), job("2", owner="you")], ["1"]),
        ([job("1", owner=""), job("2", owner="")], ["1"]),
        ([job("1"), job("2")], ["1", "2"]),
        ([job("1"), job("2")], []),
        ([job("2")], ["1"]),
        ([], ["1"]),
    ],
    ids=[
        "another's",
        "nobody's",
        "both waited for",
        "not waited for",
        "first is not listed",
        "nothing listed",
    ],
)
def test_other_jobs_are_left_alone(listed: list[Job], waited_for: list[str]) -> None:
    assert list(duplicates(listed, waited_for)) == []
