"""Finds the jobs of a project that no Airflow task tracks any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from container_training.work.orphans.orphans import (
    DEFAULT_GRACE,
    Orphan,
    TaskView,
    Verdict,
    describe_run,
    is_of_run,
    live_owners,
    may_be_orphan,
    submitted,
)
from training_api.clients.backend import TrainingBackend
from training_api.clients.job_lists import listed_jobs
from training_api.clients.watching import JobWatch
from training_api.dialects.ml_v1.resources import Job
from training_api.fleet.wire import MAX_SEARCH_PAGE, SearchJobsRequest
from training_api.job.labels import OWNER_LABEL
from training_api.states import JobState

#: The filter for jobs that may be orphans.
ALIVE = " OR ".join(f"state={state}" for state in (JobState.QUEUED, JobState.PREPARING, JobState.RUNNING))
_PAGE_SIZE = 100
_UNKNOWN = "no task of this Airflow has submitted it: its run was deleted, or it belongs to another Airflow"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TaskSource(Protocol):
    """Reads task instances, from Airflow's REST API or from its database."""

    def live_tasks(self) -> list[TaskView]:
        """Return every task instance of every DAG that may still run."""

    def tasks_of_run(self, job: Job) -> list[TaskView]:
        """Return the task instances, in any state, of all runs that the labels of ``job`` may mean."""

    def downstream(self, dag_id: str) -> Mapping[str, frozenset[str]]:
        """Return the direct downstream tasks by task of a DAG's newest version; empty: no such DAG."""

    def owner_of(self, task: TaskView) -> str:
        """Return the owner token that ``task`` has stored; empty: it has stored none."""


class OrphanSearch:
    """
    One pass over the tasks of an Airflow, for jobs of a project.

    Jobs are listed before tasks, so the task of every listed job is seen.

    :param grace: younger jobs are left alone.
    """

    def __init__(
        self,
        airflow: TaskSource,
        *,
        grace: timedelta = DEFAULT_GRACE,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._airflow = airflow
        self._grace = grace
        self._now = now
        self._downstream: dict[str, Mapping[str, frozenset[str]]] = {}

    def find(self, training: TrainingBackend) -> list[Orphan]:
        """
        Return the jobs without a live owner, newest first.

        :raises TransportError: the service or Airflow did not answer; nothing is known then.
        :raises ServiceError: one of them refused.
        """
        return self.among(listed_jobs(lambda token: training.list_jobs(ALIVE, _PAGE_SIZE, token)))

    def among(self, listed: Iterable[Job]) -> list[Orphan]:
        """
        Return those of ``listed`` that have no live owner; they must be listed before this call.

        Raises as ``find`` does.
        """
        jobs = [job for job in listed if may_be_orphan(job, self._now(), self._grace)]
        if not jobs:
            return []
        live = self._airflow.live_tasks()
        suspects = [job for job in jobs if not self._live_owners(job, live)]
        return [orphan for job in suspects if (orphan := self._judge(job)) is not None]

    def _judge(self, job: Job) -> Orphan | None:
        """Check the job's own run, whose tasks may have been cleared since."""
        tasks = [task for task in self._airflow.tasks_of_run(job) if is_of_run(task, job)]
        token = (job.labels or {})[OWNER_LABEL]
        is_ours = any(self._airflow.owner_of(task) == token for task in tasks if submitted(task, job))
        if not is_ours:
            return Orphan(job=job, verdict=Verdict.UNKNOWN, why=_UNKNOWN)
        if self._live_owners(job, tasks):
            return None
        return Orphan(job=job, verdict=Verdict.ORPHAN, why=f"its run is over ({describe_run(tasks)})")

    def _live_owners(self, job: Job, tasks: list[TaskView]) -> list[TaskView]:
        for dag_id in {task.dag_id for task in tasks if is_of_run(task, job)} - self._downstream.keys():
            self._downstream[dag_id] = self._airflow.downstream(dag_id)
        return live_owners(job, tasks, self._downstream)


def live_jobs(ops: JobWatch) -> list[Job]:
    """Return the jobs of all dialects that may be orphans, newest first: what their rows tell."""
    request = SearchJobsRequest(filter=ALIVE, page_size=MAX_SEARCH_PAGE)
    return [
        Job(job_id=row.job_id, state=row.state, labels=row.labels, create_time=row.create_time)
        for row in listed_jobs(
            lambda token: ops.search_jobs(request.model_copy(update={"page_token": token}))
        )
    ]
