"""A training service behind ``training_default``, a task's context, Airflow's database."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import httpx
import pytest
import structlog

from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_registry import FakeRegistry
from tests.support.fakes.fake_service import PROJECT, FakeService
from tests.support.fakes.fake_vertex import REGION, FakeVertex
from tests.support.fresh_airflow import FreshAirflow
from training_api.clients.network import Network

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from sqlalchemy.orm import Session

    from container_training.work.object_store import ObjectStore
    from tests.support.fakes.cloud_build_server import CloudBuildServer


class StateStore(dict[str, Any]):
    """``context["task_state_store"]``: like Airflow's, it keeps JSON only."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        self[key] = json.loads(json.dumps(value))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> FakeService:
    """Return the service that every hook of the test talks to."""
    from training_api.clients import training

    fake = FakeService()
    connection = {
        "conn_type": "container_training",
        "host": "training.test",
        "port": 8470,
        "extra": {"project": PROJECT},
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    for name, handler in (("TrainingClient", fake.handle), ("AsyncTrainingClient", fake.handle_async)):
        client = functools.partial(getattr(training, name), transport=httpx.MockTransport(handler))
        monkeypatch.setattr(training, name, client)
    return fake


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> FakeVertex:
    """Vertex AI behind the task's connection."""
    from container_training.hooks import vertex_address

    fake = FakeVertex()
    extra = {"project": PROJECT, "region": REGION}
    # A service of one's own, so that Google is asked for no token.
    connection = {
        "conn_type": "vertex_training",
        "host": "http://127.0.0.1:1",
        "password": "x",
        "extra": extra,
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    for name, handler in (("VertexClient", fake.handle), ("AsyncVertexClient", fake.handle_async)):
        client = functools.partial(getattr(vertex_address, name), transport=httpx.MockTransport(handler))
        monkeypatch.setattr(vertex_address, name, client)
    return fake


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> FakeBucket:
    """Return the bucket that every hook of the test reads and writes."""
    from container_training.hooks.storage import StorageHook
    from container_training.work.object_store import ObjectStore

    fake = FakeBucket()
    monkeypatch.setattr(StorageHook, "store", ObjectStore(fake))
    return fake


@pytest.fixture
def context() -> dict[str, Any]:
    """Return the context of the first try of ``train.submit`` in the run ``manual__1``."""
    ti = SimpleNamespace(
        dag_id="train_digits",
        task_id="train.submit",
        run_id="manual__1",
        map_index=-1,
        try_number=1,
        xcom_push=mock.Mock(),
        get_first_reschedule_date=lambda _: None,
    )
    return {"ti": ti, "task_state_store": StateStore()}


class LogLines(Sequence[str]):
    """The lines logged so far, as they would be read."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: Any) -> Any:
        return [str(entry["event"]) for entry in self._entries][place]


@pytest.fixture(scope="session")
def fresh_airflow() -> Iterator[FreshAirflow]:
    """Interpreters that have imported nothing of this project: this one has imported all of it."""
    fresh = FreshAirflow()
    yield fresh
    fresh.close()


@pytest.fixture
def log_lines() -> Iterator[Sequence[str]]:
    """Return what hooks, operators, sensors and triggers log during the test."""
    with structlog.testing.capture_logs() as entries:
        yield LogLines(entries)


@pytest.fixture(autouse=True)
def no_pause_before_deferring(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Let a wait poll its job without a pause before it is deferred.

    Otherwise it polls for three seconds.
    """
    monkeypatch.setattr("container_training.sensors.training._PAUSE_BEFORE_DEFERRING", 0.0)


@pytest.fixture(autouse=True)
def no_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no wait ask an API server that this machine may have for its triggerer."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:9/execution/")


@pytest.fixture
def session(airflow_db: Path) -> Iterator[Session]:
    """A session of Airflow's database; what a test writes is there for this test alone."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select

    with create_session() as session:
        # What a fixture of the whole module has made stays.
        runs, dags = [*session.scalars(select(DagRun.id))], [*session.scalars(select(DagModel.dag_id))]
        session.commit()
        yield session
        session.rollback()
        session.execute(delete(DagRun).where(DagRun.id.not_in(runs)))
        session.execute(delete(DagModel).where(DagModel.dag_id.not_in(dags)))


@pytest.fixture
def add_run(register_dag: Callable[[DAG], DAG], session: Session) -> Callable[..., None]:
    """Return a function that adds a run of a DAG, with tasks of these names and their instances."""

    def add_run(dag_id: str, run_id: str, *tasks: str, **of_dag: Any) -> None:
        from airflow.models.dag_version import DagVersion
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.providers.standard.operators.empty import EmptyOperator
        from airflow.sdk import DAG
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        with DAG(dag_id, schedule=None, **of_dag) as dag:
            for task in tasks:
                EmptyOperator(task_id=task)
        register_dag(dag)
        serialized = SerializedDagModel.get_dag(dag_id, session=session)
        assert serialized is not None
        assert DagVersion.get_latest_version(dag_id, session=session)
        serialized.create_dagrun(
            run_id=run_id,
            run_after=datetime(2026, 11, 20, tzinfo=UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        session.commit()

    return add_run


@pytest.fixture
def cloud(
    monkeypatch: pytest.MonkeyPatch, airflow_db: Path, store: ObjectStore
) -> Iterator[CloudBuildServer]:
    """Cloud Build, a bucket for it, and the connection of tasks that use it."""
    # Imported on use: Google's libraries take seconds.
    from tests.support.fakes.cloud_build_parts import fake_cloud_build

    with fake_cloud_build(monkeypatch, store) as builds:
        yield builds


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    """What all registries of the test have."""
    found = FakeRegistry()
    monkeypatch.setattr(Network, "transport", lambda self, url: httpx.MockTransport(found.answer))
    return found
