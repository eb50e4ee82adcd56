"""
Task instances as Airflow's own database has them, for the search for orphans.

The same answers as Airflow's REST API gives (``container_training/work/orphans/airflow_api.py``), whatever
the reader's rights: an owner that the reader may not see is an owner all the same.
"""

from __future__ import annotations

import logging

from container_training.airflow_internals.database import (
    airflow_database,
    downstream_tasks,
    live_tasks,
    stored_state,
    tasks_with_run_label,
)
from container_training.work.orphans.airflow_api import LIVE_STATES
from container_training.work.orphans.orphans import TaskView
from training_api.dialects.ml_v1.intent import INTENT_KEY, Intent
from training_api.dialects.ml_v1.resources import Job
from training_api.job.job_id import TaskKey
from training_api.job.labels import RUN_LABEL

_log = logging.getLogger(__name__)


class AirflowTasks:
    """
    A ``TaskSource`` of the search for orphans, over this process's own database.

    See ``container_training.work.orphans.search``.
    """

    def live_tasks(self) -> list[TaskView]:
        """Return every task instance of every DAG that may still run."""
        with airflow_database() as session:
            return live_tasks([state for state in LIVE_STATES if state != "none"], session)

    def tasks_of_run(self, job: Job) -> list[TaskView]:
        """Return the task instances, in any state, of all runs that the labels of ``job`` may mean."""
        with airflow_database() as session:
            return tasks_with_run_label((job.labels or {}).get(RUN_LABEL, ""), session)

    def downstream(self, dag_id: str) -> dict[str, frozenset[str]]:
        """
        Return the tasks right after each task of a DAG's newest version.

        Empty if there is no such DAG.
        """
        with airflow_database() as session:
            return downstream_tasks(dag_id, session)

    def owner_of(self, task: TaskView) -> str:
        """Return the owner token that ``task`` has stored; empty if it has stored none."""
        try:
            intent = Intent.from_json(stored_state(TaskKey.of(task), INTENT_KEY))
        except Exception:  # whatever a custom backend raises; a job of an unknown owner is left alone
            _log.warning("the state store of %s cannot be read", task, exc_info=True)
            return ""
        return intent.owner if intent else ""
