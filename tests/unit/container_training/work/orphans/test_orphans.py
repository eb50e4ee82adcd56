"""
Which task still looks after a job.

The task that submitted it, a later one, or any task that waits for its id.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from container_training.work.orphans.orphans import (
    TaskView,
    are_over,
    describe_run,
    live_owners,
    may_be_orphan,
    submitted,
)
from training_api.dialects.ml_v1.intent import Intent, owner_labels
from training_api.dialects.ml_v1.resources import Job
from training_api.job.job_id import TaskKey
from training_api.job.labels import DETACHED_LABEL
from training_api.states import JobState

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
GRACE = timedelta(minutes=5)
KEY = TaskKey(dag_id="My.DAG", task_id="train.submit", run_id="manual__2026-11-20T09:00:00+00:00")
LABELS = owner_labels(KEY, Intent(request_hash="f" * 16, job_id="job_1", owner="token"))
SUBMIT = TaskView(dag_id=KEY.dag_id, run_id=KEY.run_id, task_id=KEY.task_id, state="success")
#: train.submit -> wait -> collect, and beside them: other.
DOWNSTREAM = {
    KEY.dag_id: {
        "train.submit": frozenset({"wait"}),
        "wait": frozenset({"collect"}),
        "collect": frozenset[str](),
        "other": frozenset[str](),
    }
}


def make_job(**changes: object) -> Job:
    fields = {
        "job_id": "job_1",
        "state": JobState.RUNNING,
        "create_time": NOW - timedelta(hours=1),
        "labels": LABELS,
    }
    return Job.model_validate(fields | changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"state": JobState.QUEUED}, True),
        ({"state": JobState.SUCCEEDED}, False),
        ({"state": JobState.CANCELLING}, False),  # it is ended already
        ({"labels": {"team": "vision"}}, False),  # of a person, or another program
        ({"labels": LABELS | {DETACHED_LABEL: "true"}}, False),
        ({"create_time": NOW - GRACE}, True),
        ({"create_time": NOW - GRACE + timedelta(seconds=1)}, False),
        ({"create_time": None}, False),
    ],
)
def test_only_old_live_jobs_of_airflow_are_looked_at(changes: dict[str, object], expected: bool) -> None:
    assert may_be_orphan(make_job(**changes), NOW, GRACE) is expected


@pytest.mark.parametrize(
    ("task_id", "state", "is_owner"),
    [
        ("train.submit", "running", True),
        ("train.submit", "up_for_retry", True),
        ("train.submit", "success", False),
        ("wait", "deferred", True),
        ("wait", "failed", False),
        ("collect", None, True),
        ("collect", "upstream_failed", False),
        ("other", "running", False),
    ],
)
def test_a_task_owns_the_job_that_it_or_one_before_it_submitted(
    task_id: str, state: str | None, is_owner: bool
) -> None:
    task = replace(SUBMIT, task_id=task_id, state=state)

    assert live_owners(make_job(), [SUBMIT, task], DOWNSTREAM) == ([task] if is_owner else [])


def test_a_task_of_another_run_owns_the_job_only_if_it_waits_for_its_id() -> None:
    other = replace(SUBMIT, run_id="manual__2", task_id="wait", state="deferred")
    waiting = replace(other, dag_id="another", waits_for="job_1")

    assert live_owners(make_job(), [other, waiting], DOWNSTREAM) == [waiting]


def test_every_task_of_the_run_counts_where_the_dag_has_lost_the_one_that_submitted() -> None:
    task = replace(SUBMIT, task_id="renamed", state="running")

    assert live_owners(make_job(), [task], {KEY.dag_id: {"renamed": frozenset()}}) == [task]


def test_names_are_compared_as_labels() -> None:
    assert submitted(SUBMIT, make_job())
    assert not submitted(replace(SUBMIT, task_id="train.wait"), make_job())


def test_the_run_is_described_task_by_task() -> None:
    mapped = replace(SUBMIT, task_id="wait", map_index=2, state="failed")

    assert describe_run([SUBMIT, mapped]) == "train.submit: success, wait[2]: failed"


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], True),
        (["success", "failed", "skipped", "upstream_failed", "removed"], True),
        (["success", None], False),
        (["success", "up_for_retry"], False),
        (["deferred"], False),
    ],
)
def test_tasks_are_over_when_none_does_anything_more(states: list[str | None], expected: bool) -> None:
    assert are_over(states) is expected
