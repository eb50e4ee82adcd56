"""
Airflow's own database, read in short visits: for the API server and the scheduler only.

Its tables are not a public API. A task has no access to them.

Not FastAPI's ``SessionDep``: it has its connection from the first query to the end of the request, also while
the request waits for a thread, or for the training service. The pool has fifteen connections, and Airflow
looks at each login's token in the event loop itself, which stands still while the pool is empty - and with it
the requests that would give connections back. Fifty pages that ask at the same moment had a whole API server
hang so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow.configuration import conf
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.serialized_dag import SerializedDagModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.state import TaskScope, get_state_backend
from airflow.utils.session import create_session
from sqlalchemy import ColumnElement, and_, exists, or_, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from container_training.work.orphans.orphans import TaskView
from training_api.job.job_id import MAX_LABEL_LENGTH, TaskKey

#: Marks a value of a task's state store as the reference of the workers' own backend.
#: Source: airflow.state (3.3), ``BaseStoreBackend.serialize_task_state_store_to_ref``.
_REFERENCE = "__airflow_state_ref__"
_KEY_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")
#: A label of full length may end in a digest of nine characters.
_KEPT_LENGTH = MAX_LABEL_LENGTH - 9


@contextmanager
def airflow_database() -> Iterator[Session]:
    """
    Open a session for a few queries; its connection is back in the pool after the block.

    Within it: no question to a service or an auth manager, no other session, no ``await``.
    """
    with create_session() as session:
        yield session


def dag_ids(session: Session) -> frozenset[str]:
    """Return the ids of all DAGs."""
    return frozenset(session.scalars(select(DagModel.dag_id)))


def connection_ids(conn_type: str, session: Session) -> set[str]:
    """Return the ids of the connections of a type; those of a secrets backend cannot be listed."""
    query = select(Connection.conn_id).where(Connection.conn_type == conn_type)
    return {conn_id for conn_id in session.scalars(query) if conn_id}


def run_type_and_user(dag_id: str, run_id: str, session: Session) -> tuple[str, str] | None:
    """Return how a run came about and who had it made, or ``None``: there is no such run."""
    query = select(DagRun.run_type, DagRun.triggering_user_name).where(
        DagRun.dag_id == dag_id, DagRun.run_id == run_id
    )
    found = session.execute(query).first()
    return (str(found[0]), found[1] or "") if found else None


def run_state(dag_id: str, run_id: str, session: Session) -> str | None:
    """Return the state of a run, or ``None``: there is no such run."""
    return session.scalar(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))


def runs_with_labels(wanted: Collection[tuple[str, str]], session: Session) -> list[tuple[str, str]]:
    """Return DAG id and run id of the runs that the pairs of DAG id and label may mean."""
    if not wanted:
        return []
    may_be = [and_(DagRun.dag_id == dag_id, _has_label(DagRun.run_id, label)) for dag_id, label in wanted]
    found = session.execute(select(DagRun.dag_id, DagRun.run_id).where(or_(*may_be)))
    return [(dag_id, run_id) for dag_id, run_id in found]


def tasks_of_runs(
    runs: Collection[tuple[str, str]], session: Session, *, state: str | None = None
) -> list[TaskKey]:
    """
    Return the task instances of ``runs``, which are pairs of DAG id and run id.

    :param state: only those in this state.
    """
    if not runs:
        return []
    query = select(*_columns(TaskInstance)).where(
        tuple_(TaskInstance.dag_id, TaskInstance.run_id).in_(sorted(runs))
    )
    if state is not None:
        query = query.where(TaskInstance.state == state)
    return [TaskKey(**dict(zip(_KEY_COLUMNS, row, strict=True))) for row in session.execute(query)]


def task_states(key: TaskKey, session: Session, *, whole_run: bool = False) -> list[str | None]:
    """Return the state of the task, or those of all tasks of its run; empty if there is none."""
    query = select(TaskInstance.state).where(
        TaskInstance.dag_id == key.dag_id, TaskInstance.run_id == key.run_id
    )
    if not whole_run:
        query = query.where(TaskInstance.task_id == key.task_id, TaskInstance.map_index == key.map_index)
    return list(session.scalars(query))


def live_tasks(states: Collection[str], session: Session) -> list[TaskView]:
    """Return the task instances of all DAGs that are in one of ``states``, or in none yet."""
    return _task_views(or_(TaskInstance.state.is_(None), TaskInstance.state.in_(states)), session)


def tasks_with_run_label(label: str, session: Session) -> list[TaskView]:
    """Return the task instances of all runs that ``label`` may mean, in any state."""
    return _task_views(_has_label(TaskInstance.run_id, label), session)


def downstream_tasks(dag_id: str, session: Session) -> dict[str, frozenset[str]]:
    """Return the tasks right after each task of a DAG's newest version; empty if there is none."""
    dag = SerializedDagModel.get_dag(dag_id, session=session)
    tasks = dag.task_dict if dag else {}
    return {task_id: frozenset(task.downstream_task_ids) for task_id, task in tasks.items()}


def rendered_fields(key: TaskKey, session: Session) -> Mapping[str, Any]:
    """Return the arguments with which the task has begun; empty if it never has."""
    query = (
        select(RenderedTaskInstanceFields.rendered_fields)
        .join_from(TaskInstance, TaskInstance.rendered_task_instance_fields)
        .where(*_is_of(TaskInstance, key))
    )
    return session.scalar(query) or {}


def find_xcom(key: TaskKey, name: str, session: Session) -> XComModel | None:
    """Return the row of what the task pushed under ``name``, as the database has it."""
    return session.scalar(select(XComModel).where(*_is_of(XComModel, key), XComModel.key == name))


def has_xcom(key: TaskKey, name: str, session: Session) -> bool:
    """Whether the task has pushed something under ``name``; the value, maybe large, is not read."""
    return bool(session.scalar(select(exists().where(*_is_of(XComModel, key), XComModel.key == name))))


def read_xcom(found: XComModel) -> Any:
    """Return the value of a row, by Airflow's XCom backend, which may raise anything."""
    from airflow.sdk.execution_time.xcom import XCom

    return XCom.deserialize_value(found)


def stored_state(key: TaskKey, name: str) -> Any:
    """
    Return what the task keeps under ``name`` in its state store; ``None``: nothing.

    Read as the task itself reads it: where the workers have a backend of their own, Airflow's has a
    reference. Backends may raise whatever they like.
    """
    scope = TaskScope(dag_id=key.dag_id, run_id=key.run_id, task_id=key.task_id, map_index=key.map_index)
    stored = json.loads(get_state_backend().get(scope, name) or "null")
    ref = stored.get(_REFERENCE) if isinstance(stored, dict) else None
    backend = conf.getimport("workers", "state_store_backend", fallback=None)
    return stored if ref is None or backend is None else backend().deserialize_task_state_store_from_ref(ref)


def _task_views(wanted: ColumnElement[bool], session: Session) -> list[TaskView]:
    # Only the one field that matters leaves the database: the others may be large.
    job_id = RenderedTaskInstanceFields.rendered_fields["job_id"].as_string()
    columns = [*_columns(TaskInstance), TaskInstance.state, job_id]
    # By the relation: what the table's key is differs from 3.3 to 3.4.
    query = (
        select(*columns)
        .select_from(TaskInstance)
        .outerjoin(TaskInstance.rendered_task_instance_fields)
        .where(wanted)
    )
    return [
        TaskView(
            dag_id=dag_id,
            run_id=run_id,
            task_id=task_id,
            map_index=map_index,
            state=str(state) if state else None,
            waits_for=waits_for if isinstance(waits_for, str) else None,
        )
        for dag_id, run_id, task_id, map_index, state, waits_for in session.execute(query)
    ]


def _columns(table: Any) -> list[Any]:
    return [getattr(table, name) for name in _KEY_COLUMNS]


def _is_of(table: Any, key: TaskKey) -> tuple[Any, ...]:
    return tuple(getattr(table, name) == getattr(key, name) for name in _KEY_COLUMNS)


def _has_label(column: InstrumentedAttribute[str], label: str) -> ColumnElement[bool]:
    """
    Narrow ``column`` to texts that may have ``label``.

    ``-`` stands for any one character, and capitals do not count.
    """
    kept = label if len(label) < MAX_LABEL_LENGTH else label[:_KEPT_LENGTH]
    pattern = kept.replace("-", "_") + ("%" if len(label) >= MAX_LABEL_LENGTH else "")
    return column.ilike(pattern)
