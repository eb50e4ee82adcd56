"""Runs of DAGs in Airflow's database, and a cache of answers that does not expire in a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from sqlalchemy.orm import Session


@pytest.fixture
def session(airflow_db: Path) -> Iterator[Session]:
    """A session of Airflow's database; what a test writes is there for this test alone."""
    from airflow.models.dag import DagModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    with create_session() as session:
        yield session
        session.rollback()
        session.execute(delete(DagRun))
        session.execute(delete(DagModel))


@pytest.fixture
def kept_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache of the service's answers that does not expire, however slow the machine is."""
    from container_training.dashboard import shared
    from container_training.dashboard.routes import fleet as fleet_api
    from container_training.dashboard.routes import job as job_api

    for answers in (shared.ANSWERS, job_api._SLOW_ANSWERS, fleet_api._REPORTS, fleet_api._ORPHANS):
        monkeypatch.setattr(answers, "_clock", lambda: 0.0)
        monkeypatch.setattr(answers, "_kept", {})


@pytest.fixture
def add_run(register_dag: Callable[[DAG], DAG], session: Session) -> Callable[..., None]:
    """Return a function that adds a run of a DAG, with tasks of these names and their instances."""

    def add_run(dag_id: str, run_id: str, *tasks: str) -> None:
        from airflow.models.dag_version import DagVersion
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.providers.standard.operators.empty import EmptyOperator
        from airflow.sdk import DAG
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        with DAG(dag_id, schedule=None) as dag:
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
