"""The search for orphans, with Airflow's own database as what it asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from container_training.work.orphans.orphans import Orphan, Verdict
from container_training.work.orphans.search import OrphanSearch
from tests.support.fakes.job_rows import NOON
from training_api.dialects.ml_v1.intent import INTENT_KEY, Intent, owner_labels
from training_api.dialects.ml_v1.resources import Job
from training_api.job.job_id import TaskKey
from training_api.states import JobState

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

RUN = "manual__2026-11-20T21:06:16+00:00"
KEY = TaskKey(dag_id="digits", task_id="submit", run_id=RUN)
INTENT = Intent(request_hash="f" * 16, job_id="digits_1", owner="token")
JOB = Job(job_id="digits_1", state=JobState.RUNNING, labels=owner_labels(KEY, INTENT), create_time=NOON)


def find() -> list[Orphan]:
    from container_training.dashboard.airflow_side.tasks import AirflowTasks

    return OrphanSearch(AirflowTasks(), now=lambda: NOON + timedelta(hours=1)).among([JOB])


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
    (orphan,) = find()

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

    assert find() == []


def test_task_that_does_not_come_after_the_owner_does_not_look_after_its_job(run: Session) -> None:
    set_states(run, other="running")

    assert [orphan.verdict for orphan in find()] == [Verdict.ORPHAN]


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
    assert find() == []

    set_states(run, wait="success")

    assert len(find()) == 1


def test_job_that_no_task_says_is_its_own_is_unknown(run: Session) -> None:
    forget_intent(run)

    assert [orphan.verdict for orphan in find()] == [Verdict.UNKNOWN]


@pytest.fixture
def state_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Airflow's own object-storage backend of states, with its folder configured."""
    from airflow.providers.common.io.state_store import backend

    monkeypatch.setenv("AIRFLOW__COMMON_IO__STATE_STORE_OBJECTSTORAGE_PATH", f"file://{tmp_path}/state")
    kept = (backend._get_base_path, backend._get_compression, backend._get_threshold)
    for each in kept:
        each.cache_clear()
    yield backend.StateStoreObjectStorageBackend()
    for each in kept:
        each.cache_clear()


def forget_intent(session: Session) -> None:
    from airflow.models.task_state_store import TaskStateStoreModel
    from sqlalchemy import delete

    session.execute(delete(TaskStateStoreModel))
    session.commit()


def backend_path(backend: Any) -> str:
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def test_owner_is_found_where_workers_keep_states_elsewhere(
    run: Session, state_backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.sdk.state import TaskScope
    from sqlalchemy import update

    monkeypatch.setenv("AIRFLOW__WORKERS__STATE_STORE_BACKEND", backend_path(state_backend))
    scope = TaskScope(dag_id=KEY.dag_id, run_id=RUN, task_id=KEY.task_id)
    ref = state_backend.serialize_task_state_store_to_ref(value=INTENT.to_json(), key=INTENT_KEY, scope=scope)
    assert ref.startswith("file://"), "the database has a reference only"
    # What Airflow's workers write around a reference.
    stored = json.dumps({"__airflow_state_ref__": ref})
    run.execute(update(TaskStateStoreModel).values(value=stored))
    run.commit()

    assert [orphan.verdict for orphan in find()] == [Verdict.ORPHAN]


def test_owner_is_found_where_the_server_keeps_states_elsewhere(
    run: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from airflow import state

    monkeypatch.setenv("AIRFLOW__STATE_STORE__BACKEND", "tests.support.fakes.state_folder.FolderBackend")
    monkeypatch.setenv("STATE_FOLDER", str(tmp_path))
    monkeypatch.setattr(state, "_backend_instance", None)
    scope = state.TaskScope(dag_id=KEY.dag_id, run_id=RUN, task_id=KEY.task_id)
    state.get_state_backend().set(scope, INTENT_KEY, json.dumps(INTENT.to_json()))
    forget_intent(run)

    assert [orphan.verdict for orphan in find()] == [Verdict.ORPHAN]


@pytest.mark.parametrize("odd", ["no JSON", "[1]", '{"__airflow_state_ref__": 7}', '{"owner": "token"}', "7"])
def test_odd_state_leaves_the_job_alone(run: Session, state_backend: Any, odd: str) -> None:
    from airflow.models.task_state_store import TaskStateStoreModel
    from sqlalchemy import update

    run.execute(update(TaskStateStoreModel).values(value=odd))
    run.commit()

    assert [orphan.verdict for orphan in find()] == [Verdict.UNKNOWN]


def test_backend_that_raises_leaves_the_job_alone(
    run: Session, state_backend: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow import state

    monkeypatch.setenv("AIRFLOW__STATE_STORE__BACKEND", "absent.module.Backend")
    monkeypatch.setattr(state, "_backend_instance", None)

    assert [orphan.verdict for orphan in find()] == [Verdict.UNKNOWN]
    assert "the state store of" in caplog.text
