"""An earlier job on another service, of either API, takes the place of a new one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.training import SubmitTrainingJobOperator
from container_training.pipeline import training_pipeline
from container_training.step import training_step
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import FakeService
from tests.support.fakes.fake_vertex import FakeVertex
from tests.unit.container_training.operators.conftest import IMAGE, finish, make_operator, new_run

LOCAL, CLOUD = "training_default", "training_cloud"


@pytest.fixture
def cloud(vertex: FakeVertex, data: FakeBucket, monkeypatch: pytest.MonkeyPatch) -> FakeVertex:
    """Vertex AI, at the connection ``training_cloud``."""
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_CLOUD", os.environ["AIRFLOW_CONN_TRAINING_DEFAULT"])
    return vertex


@pytest.fixture
def local(cloud: FakeVertex, request: pytest.FixtureRequest) -> FakeService:
    """The training service, at the default connection, beside ``cloud``."""
    service: FakeService = request.getfixturevalue("service")
    return service


def on(connection: str, *others: str, **changes: Any) -> SubmitTrainingJobOperator:
    """Return a task on ``connection`` that takes jobs of ``others``, too."""
    return make_operator(training_conn_id=connection, reuse_from=others, **changes)


@pytest.fixture
def of_cloud(local: FakeService, cloud: FakeVertex, data: FakeBucket, context: Any) -> str:
    """Return the number of a job on Vertex AI that ended well."""
    operator = on(CLOUD)
    number = str(operator.execute(new_run(context)))
    cloud.move(number, "SUCCEEDED")
    assert operator.report is not None
    folder = str(operator.report.job_dir).removeprefix("gs://bucket/")
    data.objects |= {f"{folder}/{name}": b"{}" for name in ("metrics.json", "model.joblib")}
    return number


@pytest.fixture
def of_local(local: FakeService, data: FakeBucket, context: Any) -> str:
    """Return the id of a job on the service that ended well."""
    job_id = str(on(LOCAL).execute(new_run(context)))
    finish(local, data, job_id)
    return job_id


def test_a_job_of_vertex_ai_is_taken_by_a_task_on_the_service(
    local: FakeService, of_cloud: str, context: Any, log_lines: Sequence[str]
) -> None:
    run, operator = new_run(context), on(LOCAL, LOCAL, CLOUD)

    assert operator.execute(run) == of_cloud

    assert local.jobs == {}
    assert run["ti"].pushed["reused"] is True
    assert run["ti"].pushed["training_conn_id"] == CLOUD
    assert operator.report is not None
    assert operator.report.job_id == of_cloud
    assert any(line.startswith(f"job {of_cloud} of ") and "not trained again" in line for line in log_lines)


def test_a_job_of_the_service_is_taken_by_a_task_on_vertex_ai(
    cloud: FakeVertex, of_local: str, context: Any
) -> None:
    run = new_run(context)

    assert on(CLOUD, LOCAL).execute(run) == of_local

    assert cloud.jobs == {}
    assert (run["ti"].pushed["reused"], run["ti"].pushed["training_conn_id"]) == (True, LOCAL)


def test_a_task_that_also_collects_does_so_from_the_jobs_own_service(
    cloud: FakeVertex, of_local: str, context: Any
) -> None:
    run = new_run(context)

    result = on(CLOUD, LOCAL, wait_for_completion=True).execute(run)

    assert isinstance(result, dict)
    assert (result["job_id"], result["reused"]) == (of_local, True)
    assert result["model_uri"] == f"gs://bucket/jobs/{of_local}/model.joblib"
    assert cloud.jobs == {}


def test_the_tasks_own_service_comes_first(
    cloud: FakeVertex, of_cloud: str, of_local: str, context: Any
) -> None:
    cloud.requests.clear()
    run = new_run(context)

    assert on(LOCAL, CLOUD).execute(run) == of_local

    assert run["ti"].pushed["training_conn_id"] == LOCAL
    assert cloud.requests == []


def test_without_such_a_job_anywhere_the_own_service_trains(
    local: FakeService, of_cloud: str, context: Any
) -> None:
    run = new_run(context)

    job_id = on(LOCAL, CLOUD, args=["--epochs", 4]).execute(run)

    assert list(local.jobs) == [job_id]
    assert (run["ti"].pushed["reused"], run["ti"].pushed["training_conn_id"]) == (False, LOCAL)


def test_a_service_that_does_not_answer_has_none_and_is_asked_once(
    local: FakeService, cloud: FakeVertex, of_cloud: str, context: Any, log_lines: Sequence[str]
) -> None:
    cloud.requests.clear()
    cloud.faults = [httpx.ConnectError("refused")] * 9

    job_id = on(LOCAL, CLOUD).execute(new_run(context))

    assert list(local.jobs) == [job_id]
    assert len(cloud.requests) == 1
    assert any(f"earlier jobs of {CLOUD} cannot be looked for: " in line for line in log_lines)


def test_elsewhere_is_not_asked_where_nothing_is_to_be_reused(
    local: FakeService, cloud: FakeVertex, of_cloud: str, context: Any
) -> None:
    cloud.requests.clear()

    on(LOCAL, CLOUD, reuse_results=False).execute(new_run(context))

    assert cloud.requests == []
    assert len(local.jobs) == 1


@pytest.mark.parametrize("value", ["cloud", [None], ["", CLOUD], ["None"], 3])
def test_what_is_no_list_of_connections_is_refused(local: FakeService, context: Any, value: Any) -> None:
    with pytest.raises(AirflowFailException, match=r"reuse_from must be a list of connections, got "):
        make_operator(reuse_from=value).execute(new_run(context))

    assert local.jobs == {}


def test_an_unknown_connection_is_named_and_the_job_is_trained(
    local: FakeService, context: Any, log_lines: Sequence[str]
) -> None:
    job_id = on(LOCAL, "training_none").execute(new_run(context))

    assert list(local.jobs) == [job_id]
    assert any("must be the id of a connection, got 'training_none'" in line for line in log_lines)


@pytest.mark.parametrize("states", ["tasks", "one"])
def test_what_comes_after_the_submission_keeps_to_the_service_of_its_job(states: Any) -> None:
    with DAG("chain", schedule=None):
        chain = training_pipeline(
            context_dir="/trainer",
            image="HOST/demo/mine",
            backends=[LOCAL, CLOUD],
            reuse_results=True,
            bill_of_materials=True,
            tuning=True,
            states=states,
        )

    of = {task_id: str(task.training_conn_id) for task_id, task in chain.group.children.items()}  # type: ignore[attr-defined]
    pulled = "{{{{ ti.xcom_pull(task_ids='train.{}', key='training_conn_id', map_indexes=ti.map_index)"
    follows_submit = {name for name, conn_id in of.items() if conn_id.startswith(pulled.format("submit"))}
    follows_choice = {
        name for name, conn_id in of.items() if conn_id.startswith(pulled.format("choose_service"))
    }
    after = {"train.plot", "train.bill_of_materials"}
    if states == "tasks":
        after |= {f"train.wait_until_{state}" for state in ("scheduled", "running", "finished")}
        after |= {"train.collect"}
    assert follows_submit == after
    assert follows_choice == set(of) - after - {"train.choose_service"}
    assert chain.submit.reuse_from == [LOCAL, CLOUD]


def test_a_step_keeps_to_the_service_of_its_job() -> None:
    with DAG("chain", schedule=None):
        step = training_step("train", image=IMAGE, reuse_results=True, reuse_from=[CLOUD])

    assert (step.submit.training_conn_id, step.submit.reuse_from) == (LOCAL, [CLOUD])
    for task in (step.wait, step.collect):
        pulled, _, own = task.training_conn_id.partition(" or ")
        assert "task_ids='train.submit', key='training_conn_id'" in pulled
        assert own == f"'{LOCAL}' }}}}"


def test_a_chain_that_reuses_nothing_keeps_to_its_choice() -> None:
    with DAG("chain", schedule=None):
        chain = training_pipeline(context_dir="/trainer", image="HOST/demo/mine", backends=[LOCAL, CLOUD])

    assert chain.submit.reuse_from == ()
    assert "task_ids='train.choose_service'" in chain.collect.training_conn_id
