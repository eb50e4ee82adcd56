"""
Which jobs are orphans: those whose Airflow task, and every task after it, is over.

A job's labels name the task that submitted it (``training_api/dialects/ml_v1/intent.py``). Labels are cut and
lower-cased, so tasks are compared by their labels; the owner token in a task's state store decides which one
submitted the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from training_api.dialects.ml_v1.intent import is_detached
from training_api.dialects.ml_v1.resources import Job
from training_api.job.job_id import label_value
from training_api.job.labels import DAG_LABEL, OWNER_LABEL, RUN_LABEL, TASK_LABEL
from training_api.states import JobState

#: States after which a task instance does nothing more unless it is cleared.
#: Source: airflow.utils.state.State.finished (3.3.2), and ``removed``.
_FINISHED_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
#: The least age of a job that is looked at: until then Airflow may not show all of its tasks.
DEFAULT_GRACE = timedelta(minutes=5)


def are_over(states: Iterable[str | None]) -> bool:
    """Whether none of the tasks with these states will act again by itself. Pure."""
    return all(state in _FINISHED_STATES for state in states)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """
    One task instance as Airflow shows it.

    :param state: ``None`` for a task that has not been scheduled yet.
    :param waits_for: the job id among its rendered fields, if it has one.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1
    state: str | None = None
    waits_for: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it will not act again by itself; a person may clear it."""
        return are_over([self.state])


class Verdict(StrEnum):
    """What is known of a job without a live owner."""

    ORPHAN = "ORPHAN"  #: this Airflow submitted it, and none of its tasks will poll it again
    UNKNOWN = "UNKNOWN"  #: its labels name a run that this Airflow does not have: another's, or a deleted one


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A job without a live owner, and why it is one."""

    job: Job
    verdict: Verdict
    why: str


def may_be_orphan(job: Job, now: datetime, grace: timedelta) -> bool:
    """
    Whether ``job`` is active, belongs to an Airflow task's run, and is older than ``grace``.

    Pure.
    """
    labels = job.labels or {}
    is_alive = job.state in (JobState.QUEUED, JobState.PREPARING, JobState.RUNNING)
    is_old = job.create_time is not None and now - job.create_time >= grace
    return is_alive and is_old and bool(labels.get(OWNER_LABEL)) and not is_detached(job)


def submitted(task: TaskView, job: Job) -> bool:
    """Whether the labels of ``job`` name ``task``; two tasks may share them, as labels are cut."""
    return is_of_run(task, job) and (job.labels or {}).get(TASK_LABEL) == label_value(task.task_id)


def is_of_run(task: TaskView, job: Job) -> bool:
    """Whether the labels of ``job`` name the DAG run of ``task``."""
    labels = job.labels or {}
    return labels.get(DAG_LABEL) == label_value(task.dag_id) and labels.get(RUN_LABEL) == label_value(
        task.run_id
    )


def live_owners(
    job: Job, tasks: Iterable[TaskView], downstream: Mapping[str, Mapping[str, Set[str]]]
) -> list[TaskView]:
    """
    Return the tasks that will still poll ``job``.

    Pure. These are the task that submitted it, those downstream of it in the same run, and tasks of any DAG
    that wait for its id. If the DAG no longer has the submitting task, every task of the run counts: keeping
    a job too many is better than cancelling one.

    :param downstream: DAG id -> task id -> its direct downstream tasks.
    """
    live = [task for task in tasks if not task.is_finished]
    return [
        task
        for task in live
        if task.waits_for == job.job_id
        or (is_of_run(task, job) and _concerns(task, job, downstream.get(task.dag_id, {})))
    ]


def _concerns(task: TaskView, job: Job, downstream: Mapping[str, Set[str]]) -> bool:
    wanted = (job.labels or {}).get(TASK_LABEL)
    sources = {task_id for task_id in downstream if label_value(task_id) == wanted}
    return not sources or task.task_id in _reachable(sources, downstream)


def _reachable(sources: Set[str], downstream: Mapping[str, Set[str]]) -> set[str]:
    seen: set[str] = set()
    pending = list(sources)
    while pending:
        task_id = pending.pop()
        if task_id not in seen:
            seen.add(task_id)
            pending.extend(downstream.get(task_id, ()))
    return seen


def describe_run(tasks: Iterable[TaskView]) -> str:
    """Return how a run's tasks ended, in their order: ``submit: success, wait: failed``. Pure."""
    parts = [
        f"{task.task_id}{f'[{task.map_index}]' if task.map_index >= 0 else ''}: {task.state}"
        for task in tasks
    ]
    return ", ".join(parts)
