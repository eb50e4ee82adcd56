"""
Tasks that are deferred, with Airflow's own code for each step but the scheduler's.

A task runs in the test's process. A trigger runs in a separate event loop.
Both are what Airflow's database says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from airflow.executors.workloads.task import TaskInstanceDTO
from airflow.executors.workloads.trigger import RunTrigger
from airflow.jobs.triggerer_job_runner import TriggerRunner
from airflow.models.dagrun import get_or_create_dagrun
from airflow.models.taskinstance import TaskInstance
from airflow.models.trigger import Trigger
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.sdk.definitions.dag import _run_task
from airflow.serialization.serialized_objects import DagSerialization
from airflow.triggers.base import TriggerEvent
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.support.speed import scaled


class LogLines:
    """What was logged so far."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self._entries = entries

    def of(self, text: str) -> list[str]:
        """Return the lines that have ``text``."""
        lines = [str(entry["event"]) for entry in self._entries]
        return [line for line in lines if text in line]


@dataclass(frozen=True)
class Outcome:
    """How a task ended."""

    state: str
    xcoms: dict[str, Any]
    error: str


class Airflow:
    """
    The session's Airflow database.

    :param dag: is registered in it.
    """

    def __init__(self, dag: DAG) -> None:
        self._dag = dag

    def begin_run(self, run_id: str, returned: Mapping[str, Any]) -> None:
        """Make a run in which the tasks of ``returned`` have returned their values."""
        now = datetime.now(UTC)
        with create_session() as session:
            get_or_create_dagrun(
                dag=DagSerialization.deserialize_dag(DagSerialization.serialize_dag(self._dag)),
                run_id=run_id,
                logical_date=now,
                data_interval=(now, now),
                run_after=now,
                conf={},
                triggered_by=DagRunTriggeredByType.TEST,
                triggering_user_name=None,
                start_date=now,
                session=session,
            )
            session.flush()
            for task_id, value in returned.items():
                XComModel.set(
                    "return_value",
                    value,
                    dag_id=self._dag.dag_id,
                    task_id=task_id,
                    run_id=run_id,
                    serialize=False,
                    session=session,
                )

    def restore(self, run_id: str, task_id: str, row: Mapping[str, Any]) -> None:
        """Write what a database had of a deferred task and of its trigger."""
        with create_session() as session:
            trigger = Trigger(classpath=row["trigger"]["classpath"], kwargs={})
            trigger.encrypted_kwargs = json.dumps(row["trigger"]["kwargs"])
            session.add(trigger)
            session.flush()
            task = self._task(session, run_id, task_id)
            task.state = TaskInstanceState.DEFERRED
            task.trigger_id = trigger.id
            task.next_method, task.next_kwargs = row["next_method"], row["next_kwargs"]
            task.trigger_timeout = datetime.fromisoformat(row["trigger_timeout"]).replace(tzinfo=UTC)

    def run(self, run_id: str, task_id: str) -> Outcome:
        """Run the task, or let it go on, until it ends or is deferred."""
        with create_session() as session:
            task = self._task(session, run_id, task_id)
        result = _run_task(ti=task, task=self._dag.task_dict[task_id])
        with create_session() as session:
            told = XComModel.get_many(dag_ids=self._dag.dag_id, task_ids=task_id, run_id=run_id)
            return Outcome(
                state=str(self._task(session, run_id, task_id).state),
                xcoms={row.key: XComModel.deserialize_value(row) for row in session.scalars(told)},
                error=str(result.error or "") if result else "",
            )

    def wait_in_triggerer(
        self, task_id: str, run_ids: Sequence[str], act: Callable[[LogLines], Awaitable[None]]
    ) -> None:
        """
        Run the task's triggers, in these runs, until each has fired, and store their events.

        :param act: what happens meanwhile; it gets the triggers' log.
        """
        with create_session() as session:
            work = [self._work(self._task(session, run_id, task_id)) for run_id in run_ids]
        for trigger_id, event in asyncio.run(_fire(work, act)):
            Trigger.submit_event(trigger_id, event)

    def _task(self, session: Session, run_id: str, task_id: str) -> TaskInstance:
        query = select(TaskInstance).where(
            TaskInstance.dag_id == self._dag.dag_id,
            TaskInstance.run_id == run_id,
            TaskInstance.task_id == task_id,
        )
        return session.scalars(query).one()

    @staticmethod
    def _work(task: TaskInstance) -> RunTrigger:
        return RunTrigger(
            id=task.trigger.id,
            classpath=task.trigger.classpath,
            encrypted_kwargs=task.trigger.encrypted_kwargs,
            ti=TaskInstanceDTO.model_validate(task, from_attributes=True),
            timeout_after=task.trigger_timeout,
        )


async def _fire(
    work: Sequence[RunTrigger], act: Callable[[LogLines], Awaitable[None]]
) -> list[tuple[int, TriggerEvent]]:
    """Do what a triggerer does for triggers of the database; return their events."""
    runner = TriggerRunner()
    runner.to_create.extend(work)
    with structlog.testing.capture_logs() as entries:
        await runner.create_triggers()
        assert not runner.failed_triggers
        async with asyncio.timeout(scaled(60)):
            await act(LogLines(entries))
            await asyncio.gather(*(details["task"] for details in runner.triggers.values()))
    return [(entry.trigger_id, entry.event) for entry in runner.events]
