"""One look at all that the kill table is about: tasks, jobs, and builds on the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import docker
import psycopg

from training_api.clients.backend import TrainingBackend
from training_api.dialects.ml_v1.resources import Job

#: On the containers in which the steps of ``slow_image`` run.
CELL_LABEL = "kill-table-cell"
_PAGE_SIZE = 100
_EARLIEST = datetime.min.replace(tzinfo=UTC)
# From the database and not from the API: a hundred task instances twice a second would keep the API server
# busy, and with it every task that is to be killed.
_TASKS = """
    SELECT ti.run_id, ti.task_id, ti.state, ti.try_number, ti.pid, trigger.triggerer_id
    FROM task_instance ti LEFT JOIN trigger ON trigger.id = ti.trigger_id
"""
_NEWEST_TRIGGERER = "SELECT max(id) FROM job WHERE job_type = 'TriggererJob'"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSeen:
    """
    One task instance.

    :param is_watched: the newest triggerer has its trigger.
    """

    state: str = ""
    try_number: int = 0
    pid: int | None = None
    is_watched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """
    What there was at one moment.

    :param tasks: by run and task.
    :param jobs: by the label ``cell``, oldest first.
    :param building: the cells whose images are in the middle of a step.
    :param triggerer: number of the newest triggerer; each start has a higher one.
    """

    tasks: Mapping[tuple[str, str], TaskSeen]
    jobs: Mapping[str, Sequence[Job]]
    building: frozenset[str]
    triggerer: int


class Watch:
    """
    Looks; safe to use from one thread at a time.

    :param database: of Airflow, as libpq reads it (a URL without a driver).
    :param prefix: what the labels of this table's builds begin with.
    """

    def __init__(
        self, database: str, services: Sequence[TrainingBackend], engine: docker.APIClient, prefix: str
    ) -> None:
        self._prefix = prefix
        self._database = database
        self._services = services
        self._engine = engine

    def look(self) -> View:
        """Return what there is now."""
        tasks, triggerer = self._tasks()
        return View(tasks=tasks, jobs=self.jobs(), building=self._building(), triggerer=triggerer)

    def _tasks(self) -> tuple[dict[tuple[str, str], TaskSeen], int]:
        with psycopg.connect(self._database) as connection:
            rows = connection.execute(_TASKS).fetchall()
            newest = connection.execute(_NEWEST_TRIGGERER).fetchall()[0][0]
        tasks = {
            (run_id, task_id): TaskSeen(
                state=state or "",
                try_number=tries,
                pid=pid,
                is_watched=triggerer is not None and triggerer == newest,
            )
            for run_id, task_id, state, tries, pid, triggerer in rows
        }
        return tasks, newest or 0

    def jobs(self) -> dict[str, list[Job]]:
        """Return the jobs by the label ``cell``, oldest first."""
        found: defaultdict[str, list[Job]] = defaultdict(list)
        for service in self._services:
            token, is_first = "", True
            while token or is_first:
                page = service.list_jobs(page_size=_PAGE_SIZE, page_token=token)
                for job in page.jobs or ():
                    if cell := (job.labels or {}).get("cell"):
                        found[cell].append(job)
                token, is_first = page.next_page_token or "", False
        for jobs in found.values():
            jobs.sort(key=lambda job: job.create_time or _EARLIEST)
        return found

    def _building(self) -> frozenset[str]:
        containers = self._engine.containers(filters={"label": CELL_LABEL})
        labels = [container["Labels"][CELL_LABEL] for container in containers]
        return frozenset(
            label.removeprefix(self._prefix) for label in labels if label.startswith(self._prefix)
        )
