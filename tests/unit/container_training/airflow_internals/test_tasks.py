"""What is relied on of tasks, processes and metrics, though Airflow does not publish it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetAlias, BaseOperator, conf, task

from container_training.airflow_internals import tasks

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@pytest.fixture(scope="module")
def asked(register_dag: Callable[[DAG], DAG]) -> list[dict[str, Any]]:
    """What two mapped tasks learn within a run."""
    with DAG("asking", schedule=None) as dag:

        @task(task_id="asks")
        def asks(number: int, of_run: str) -> dict[str, Any]:
            return {
                "has_supervisor": tasks.has_supervisor(),
                "all": tasks.states_of_run("asking", of_run),
                "one": tasks.states_of_run("asking", of_run, task_ids=["asks"], map_index=number),
                "none": tasks.states_of_run("asking", "another"),
            }

        mapped = asks.partial(of_run="{{ run_id }}").expand(number=[0, 1])
        EmptyOperator(task_id="first") >> mapped >> EmptyOperator(task_id="last")
    run: Any = register_dag(dag).test()
    found = sorted(
        (each for each in run.get_task_instances() if each.task_id == "asks"), key=lambda each: each.map_index
    )
    return [each.xcom_pull(task_ids="asks", map_indexes=each.map_index) for each in found]


def test_has_supervisor_relies_on_the_channel_that_the_task_runner_keeps(
    monkeypatch: pytest.MonkeyPatch, asked: list[dict[str, Any]]
) -> None:
    """``task_runner.SUPERVISOR_COMMS`` is a ``CommsDecoder`` in a worker's task only."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import CommsDecoder

    assert "CommsDecoder" in str(inspect.get_annotations(task_runner)["SUPERVISOR_COMMS"])
    assert "SUPERVISOR_COMMS = CommsDecoder" in inspect.getsource(task_runner.main)
    assert not tasks.has_supervisor()
    assert [value["has_supervisor"] for value in asked] == [False, False]

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", CommsDecoder.__new__(CommsDecoder), raising=False)

    assert tasks.has_supervisor()


def test_states_of_run_relies_on_what_the_supervisor_answers(asked: list[dict[str, Any]]) -> None:
    """``RuntimeTaskInstance.get_task_states``; a mapped task's name has its index."""
    first, second = asked

    assert first["none"] == second["none"] == {}
    assert first["all"].keys() == {"first", "asks_0", "asks_1", "last"}
    assert (first["all"]["first"], first["all"]["last"]) == ("success", None)
    assert "success" in (first["all"]["asks_1"], second["all"]["asks_0"]), "whichever of the two came first"
    assert (first["one"], second["one"]) == ({"asks_0": "running"}, {"asks_1": "running"})


@pytest.mark.parametrize("error", ["AirflowRuntimeError", "EOFError", "BrokenPipeError"])
def test_states_of_run_says_with_one_error_that_the_supervisor_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse

    errors = {
        "AirflowRuntimeError": AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR)),
        "EOFError": EOFError("supervisor gone"),
        "BrokenPipeError": BrokenPipeError("pipe"),
    }

    class Comms:
        def send(self, msg: Any) -> Any:
            raise errors[error]

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Comms(), raising=False)

    with pytest.raises(OSError, match=r"API_SERVER_ERROR|supervisor gone|pipe"):
        tasks.states_of_run("dag", "run")


@pytest.mark.parametrize("metrics", [tasks.task_metrics, tasks.triggerer_metrics])
def test_task_metrics_and_triggerer_metrics_rely_on_incr_and_gauge_with_tags(
    metrics: Callable[[], Any],
) -> None:
    """``airflow.sdk.observability.stats`` and ``airflow.observability.stats``."""
    metrics().incr("container_training.submissions", tags={"outcome": "submitted"})
    metrics().gauge("container_training.orphans", 1, tags={"conn_id": "c"})


def test_is_asset_relies_on_the_classes_of_references() -> None:
    assert all(map(tasks.is_asset, (Asset("a"), Asset.ref(name="a"), Asset.ref(uri="s3://a/b"))))
    assert not any(map(tasks.is_asset, ("a", AssetAlias("a"), object())))


def test_operator_class_relies_on_what_a_mapped_task_says_of_its_class() -> None:
    class Own(BaseOperator):
        def __init__(self, *, number: int = 0, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    with DAG("mapped", schedule=None) as dag:
        Own(task_id="one")
        Own.partial(task_id="many").expand(number=[1, 2])

    assert [tasks.operator_class(found) for found in dag.tasks] == [Own, Own]


def test_run_timed_out_is_what_the_scheduler_tells_listeners(
    add_run: Callable[..., None], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``RUN_TIMED_OUT``, from the scheduler's own loop over a run that is over its limit."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    add_run("too_slow", "run", "task", dagrun_timeout=timedelta(seconds=1))
    run = session.scalars(select(DagRun).where(DagRun.dag_id == "too_slow")).one()
    run.start_date = datetime(2026, 11, 20, tzinfo=UTC)
    session.flush()
    told: list[str] = []
    monkeypatch.setattr(DagRun, "produce_dag_callback", lambda self, **_: None)
    monkeypatch.setattr(DagRun, "notify_dagrun_state_changed", lambda self, msg: told.append(msg))

    SchedulerJobRunner(job=Job())._schedule_dag_run(run, session)

    assert told == [tasks.RUN_TIMED_OUT]
    assert [found.state for found in run.get_task_instances(session=session)] == ["skipped"]


def test_log_file_of_is_where_the_log_of_a_try_lies(ran: Any) -> None:
    """``log_filename_template_renderer``, and ``[logging] base_log_folder``."""
    found = tasks.log_file_of(next(each for each in ran.get_task_instances() if each.task_id == "remembers"))

    assert found.name == "attempt=1.log"
    assert found.parent.name == "task_id=remembers"
    assert found.is_relative_to(conf.get("logging", "base_log_folder"))
