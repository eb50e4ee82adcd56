"""The search for orphans, with Airflow's own database as what it asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from container_training.work.orphans.orphans import Orphan, Verdict
from container_training.work.orphans.search import OrphanSearch
from tests.support.fakes.job_rows import NOON
from training_api.dialects.ml_v1.resources import Job
from training_api.job.intent import INTENT_KEY, Intent, owner_labels
from training_api.job.job_id import TaskKey
from training_api.states import JobState

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

RUN = "manual__2026-11-20T21:06:16+00:00"
KEY = TaskKey(dag_id="digits", task_id="submit", run_id=RUN)
INTENT = Intent(request_hash="f" * 16, job_id="digits_1", owner="token")
JOB = Job(job_id="digits_1", state=JobState.RUNNING, labels=owner_labels(KEY, INTENT), create_time=NOON)


def find(session: Session) -> list[Orphan]:
    from container_training.dashboard.airflow_side.tasks import AirflowTasks

    return OrphanSearch(AirflowTasks(session), now=lambda: NOON + timedelta(hours=1)).among([JOB])


def set_states(session: Session, **states: str | None) -> None:
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import update

    for task_id, state in states.items():
        session.execute(update(TaskInstance).where(TaskInstance.task_id == task_id).values(state=state))
    session.commit()


def store_intent(session: Session) -> None:
    from airflow.models.dagrun import DagRun
    from airflow.models.task_state_store import TaskStateStoreModel
    from sqlalchemy import select

    run = session.scalars(select(DagRun).where(DagRun.run_id == RUN)).one()
    session.add(
        TaskStateStoreModel(
            dag_run_id=run.id,
            dag_id=KEY.dag_id,
            run_id=RUN,
            task_id=KEY.task_id,
            map_index=-1,
            key=INTENT_KEY,
            value=json.dumps(INTENT.to_json()),
        )
    )
    session.commit()


@pytest.fixture
def run(add_run: Callable[..., None], session: Session) -> Session:
    """A run of ``digits`` that is over, and whose task ``submit`` owns the job."""
    add_run("digits", RUN, "submit", "other")
    store_intent(session)
    set_states(session, submit="success", other="success")
    return session


def test_job_of_a_run_that_is_over_is_an_orphan(run: Session) -> None:
    (orphan,) = find(run)

    assert orphan.verdict is Verdict.ORPHAN
    assert sorted(orphan.why.partition("(")[2].rstrip(")").split(", ")) == [
        "other: success",
        "submit: success",
    ]


@pytest.mark.parametrize(
    "state", [None, "scheduled", "running", "deferred", "up_for_retry", "awaiting_input"]
)
def test_job_whose_task_goes_on_is_none(run: Session, state: str | None) -> None:
    set_states(run, submit=state)

    assert find(run) == []


def test_task_that_does_not_come_after_the_owner_does_not_look_after_its_job(run: Session) -> None:
    set_states(run, other="running")

    assert [orphan.verdict for orphan in find(run)] == [Verdict.ORPHAN]


def test_task_of_another_dag_that_waits_for_the_job_is_its_owner(
    run: Session, add_run: Callable[..., None]
) -> None:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import select

    add_run("watcher", "r", "wait")
    task = run.scalars(select(TaskInstance).where(TaskInstance.task_id == "wait")).one()
    fields = {"job_id": "digits_1", "poll_interval": 5}
    run.add(RenderedTaskInstanceFields(task, render_templates=False, rendered_fields=fields))
    run.commit()
    assert find(run) == []

    set_states(run, wait="success")

    assert len(find(run)) == 1


def test_job_that_no_task_says_is_its_own_is_unknown(run: Session) -> None:
    from airflow.models.task_state_store import TaskStateStoreModel
    from sqlalchemy import delete

    run.execute(delete(TaskStateStoreModel))
    run.commit()

    assert [orphan.verdict for orphan in find(run)] == [Verdict.UNKNOWN]
