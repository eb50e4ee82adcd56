"""
Task instances as Airflow's own database has them, for the search for orphans.

The same answers as Airflow's REST API gives (``container_training/work/orphans/airflow_api.py``), whatever
the reader's rights: an owner that the reader may not see is an owner all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from container_training.dashboard.airflow_side.origins import has_label
from container_training.work.orphans.airflow_api import LIVE_STATES
from container_training.work.orphans.orphans import TaskView
from training_api.dialects.ml_v1.resources import Job
from training_api.job.intent import INTENT_KEY, RUN_LABEL, Intent

_COLUMNS = (
    TaskInstance.dag_id,
    TaskInstance.run_id,
    TaskInstance.task_id,
    TaskInstance.map_index,
    TaskInstance.state,
)
_RENDERED = RenderedTaskInstanceFields


class AirflowTasks:
    """
    A ``TaskSource`` of the search for orphans that lives as long as its session.

    See ``container_training.work.orphans.search``.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def live_tasks(self) -> list[TaskView]:
        """Return every task instance of every DAG that may still run."""
        scheduled = [state for state in LIVE_STATES if state != "none"]
        return list(self._tasks(or_(TaskInstance.state.is_(None), TaskInstance.state.in_(scheduled))))

    def tasks_of_run(self, job: Job) -> list[TaskView]:
        """Return the task instances, in any state, of all runs that the labels of ``job`` may mean."""
        return list(self._tasks(has_label(TaskInstance.run_id, (job.labels or {}).get(RUN_LABEL, ""))))

    def downstream(self, dag_id: str) -> dict[str, frozenset[str]]:
        """
        Return the tasks right after each task of a DAG's newest version.

        Empty if there is no such DAG.
        """
        dag = SerializedDagModel.get_dag(dag_id, session=self._session)
        tasks = dag.task_dict if dag else {}
        return {task_id: frozenset(task.downstream_task_ids) for task_id, task in tasks.items()}

    def owner_of(self, task: TaskView) -> str:
        """Return the owner token that ``task`` has stored; empty if it has stored none."""
        query = select(TaskStateStoreModel.value).where(
            TaskStateStoreModel.dag_id == task.dag_id,
            TaskStateStoreModel.run_id == task.run_id,
            TaskStateStoreModel.task_id == task.task_id,
            TaskStateStoreModel.map_index == task.map_index,
            TaskStateStoreModel.key == INTENT_KEY,
        )
        stored = self._session.scalar(query)
        intent = Intent.from_json(json.loads(stored)) if stored else None
        return intent.owner if intent else ""

    def _tasks(self, wanted: ColumnElement[bool]) -> Iterator[TaskView]:
        of_task = and_(
            *(
                getattr(_RENDERED, name) == getattr(TaskInstance, name)
                for name in ("dag_id", "run_id", "task_id", "map_index")
            )
        )
        # Only the one field that matters leaves the database: the others may be large.
        job_id = _RENDERED.rendered_fields["job_id"].as_string()
        query = select(*_COLUMNS, job_id).outerjoin(_RENDERED, of_task).where(wanted)
        for dag_id, run_id, task_id, map_index, state, waits_for in self._session.execute(query):
            yield TaskView(
                dag_id=dag_id,
                run_id=run_id,
                task_id=task_id,
                map_index=map_index,
                state=str(state) if state else None,
                waits_for=waits_for if isinstance(waits_for, str) else None,
            )
