"""Which job a task's tab shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from training_api.job.job_id import TaskKey

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

KEY = TaskKey(dag_id="d", run_id="r", task_id="t")
JOB = {"jobId": "pushed", "trainingInput": {}}


@pytest.mark.parametrize(
    ("fields", "pushed", "expected"),
    [
        ({"job_id": "waited_for", "training_conn_id": "other"}, None, ("waited_for", "other")),
        ({"job_id": "waited_for"}, None, ("waited_for", "training_default")),
        ({"job_id": "first", "training_conn_id": "other"}, JOB, ("pushed", "other")),
        ({"job_id": None}, JOB, ("pushed", "training_default")),
        ({"job_id": "None"}, None, None),
        ({}, {"jobId": "x"}, None),
        ({}, "[1]", None),
        ({}, "no json", None),
        ({}, None, None),
    ],
)
def test_pushed_job_counts_then_the_argument(
    add_run: Callable[..., None],
    session: Session,
    fields: dict[str, Any],
    pushed: Any,
    expected: tuple[str, str] | None,
) -> None:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from sqlalchemy import insert

    from container_training.dashboard.airflow_side.task_jobs import job_of_task

    add_run("d", "r", "t")
    own = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}
    session.execute(insert(RenderedTaskInstanceFields).values(**own, rendered_fields=fields))
    if pushed is not None:
        XComModel.set(key="job", value=pushed, **own, session=session)
    session.commit()

    found = job_of_task(KEY)

    assert (found and (found.job_id, found.conn_id)) == expected


def test_task_that_never_ran_has_no_job(session: Session) -> None:
    from container_training.dashboard.airflow_side.task_jobs import job_of_task

    assert job_of_task(KEY) is None


@pytest.fixture
def xcom_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[Any], Any]]:
    """A custom backend, configured; return what it stores in the database for a value."""
    from airflow.providers.common.io.xcom import backend
    from airflow.sdk.execution_time import xcom

    monkeypatch.setenv("AIRFLOW__CORE__XCOM_BACKEND", f"{backend.__name__}.XComObjectStorageBackend")
    monkeypatch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH", f"file://{tmp_path}/xcom")
    monkeypatch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_THRESHOLD", "0")
    kept = (backend._get_base_path, backend._get_compression, backend._get_threshold)
    for each in kept:
        each.cache_clear()
    found = xcom.resolve_xcom_backend()
    monkeypatch.setattr(xcom, "XCom", found)
    yield lambda value: found.serialize_value(value, key="job", dag_id="d", run_id="r", task_id="t")
    for each in kept:
        each.cache_clear()


def push(session: Session, add_run: Callable[..., None], stored: Any, fields: dict[str, Any]) -> None:
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.xcom import XComModel
    from sqlalchemy import insert

    add_run("d", "r", "t")
    own = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1}
    session.execute(insert(RenderedTaskInstanceFields).values(**own, rendered_fields=fields))
    XComModel.set(key="job", value=stored, **own, serialize=False, session=session)
    session.commit()


def test_job_that_a_custom_backend_keeps_elsewhere_is_found(
    xcom_backend: Callable[[Any], Any], add_run: Callable[..., None], session: Session
) -> None:
    from container_training.dashboard.airflow_side.task_jobs import job_of_task

    stored = xcom_backend({**JOB, "labels": {"x": "y"}})
    assert stored.startswith("file://"), "the database has a reference only"
    push(session, add_run, stored, {"job_id": "first"})

    found = job_of_task(KEY)

    assert found is not None
    assert found.job_id == "pushed"


@pytest.mark.parametrize("value", [["a", "list"], "no job", {"jobId": 7, "trainingInput": {}}, None, b"\xff"])
def test_odd_value_of_a_backend_leaves_the_tasks_argument(
    xcom_backend: Callable[[Any], Any],
    add_run: Callable[..., None],
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    value: Any,
) -> None:
    from airflow.sdk.execution_time.xcom import XCom

    from container_training.dashboard.airflow_side.task_jobs import job_of_task

    push(session, add_run, "file://reference", {"job_id": "first"})
    monkeypatch.setattr(XCom, "deserialize_value", staticmethod(lambda _row: value))

    found = job_of_task(KEY)

    assert found is not None
    assert found.job_id == "first"


def test_backend_that_raises_does_not_take_the_page_down(
    xcom_backend: Callable[[Any], Any],
    add_run: Callable[..., None],
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from airflow.sdk.execution_time.xcom import XCom

    from container_training.dashboard.airflow_side.task_jobs import job_of_task

    def refuse(_row: Any) -> Any:
        raise PermissionError("no right to read the store of XComs")

    push(session, add_run, "file://reference", {})
    monkeypatch.setattr(XCom, "deserialize_value", staticmethod(refuse))

    assert job_of_task(KEY) is None
    assert "the XCom backend cannot read" in caplog.text
    assert "no right to read the store of XComs" in caplog.text
