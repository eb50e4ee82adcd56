"""Finds the jobs of a project that no task of Airflow looks after any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from container_training.clients.airflow_api import AirflowApiClient
from container_training.clients.training_api import TrainingClient
from container_training.core.intent import OWNER_LABEL
from container_training.core.orphans import (
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
from container_training.core.states import JobState
from container_training.core.wire import Job

_ALIVE = " OR ".join(f"state={state}" for state in (JobState.QUEUED, JobState.PREPARING, JobState.RUNNING))
_PAGE_SIZE = 100
_UNKNOWN = "no task of this Airflow has submitted it: its run was deleted, or it belongs to another Airflow"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class OrphanSearch:
    """
    One look at the jobs of a project and at the tasks of an Airflow.

    Jobs are listed before tasks: a task that submits a job in between is seen, and so is its job's owner.

    :param grace: younger jobs are left alone.
    """

    def __init__(
        self,
        training: TrainingClient,
        airflow: AirflowApiClient,
        *,
        grace: timedelta = DEFAULT_GRACE,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._training = training
        self._airflow = airflow
        self._grace = grace
        self._now = now
        self._downstream: dict[str, dict[str, frozenset[str]]] = {}

    def find(self) -> list[Orphan]:
        """
        Return the jobs without a live owner, newest first.

        :raises TransportError: the service or Airflow did not answer; nothing is known then.
        :raises ServiceError: one of them refused.
        """
        jobs = [job for job in self._live_jobs() if may_be_orphan(job, self._now(), self._grace)]
        if not jobs:
            return []
        live = self._airflow.live_tasks()
        suspects = [job for job in jobs if not self._live_owners(job, live)]
        return [orphan for job in suspects if (orphan := self._judge(job)) is not None]

    def _judge(self, job: Job) -> Orphan | None:
        """Look at the job's own run, whose tasks may have been cleared since."""
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

    def _live_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        token = ""
        while True:
            page = self._training.list_jobs(_ALIVE, _PAGE_SIZE, token)
            jobs += page.jobs or []
            token = page.next_page_token or ""
            if not token:
                return jobs
