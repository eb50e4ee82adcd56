"""A DAG run that Airflow itself has carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.sdk import DAG, BaseOperator, task
from airflow.utils.session import create_session
from sqlalchemy import delete

if TYPE_CHECKING:
    from airflow.sdk import Context


class Remembers(BaseOperator):
    """Leaves something in each place where a task can leave it."""

    template_fields = ("job_id",)

    def __init__(self, *, job_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id

    def execute(self, context: Context) -> str:
        context["task_state_store"].set("kept", {"owner": "token"})
        context["ti"].xcom_push(key="job", value={"jobId": "digits_1"})
        return self.job_id


@pytest.fixture(scope="module")
def ran(register_dag: Callable[[DAG], DAG]) -> Iterator[Any]:
    """Return the run of ``internal_things``: ``remembers``, then two of ``asks``, then ``last``."""
    with DAG("internal_things", schedule=None) as dag:

        @task(task_id="asks")
        def asks(number: int) -> int:
            return number

        @task(task_id="last")
        def last() -> None:
            """Come after the others."""

        first = Remembers(task_id="remembers", job_id="job-of-{{ dag_run.dag_id }}")
        first >> asks.expand(number=[0, 1]) >> last()
    yield register_dag(dag).test()
    with create_session() as session:
        session.execute(delete(DagRun).where(DagRun.dag_id == dag.dag_id))
        session.execute(delete(DagModel).where(DagModel.dag_id == dag.dag_id))
