"""A job goes to its own service while that has room, else to the next: two real services."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_engines.memory.engine import MemoryEngine
from container_training.hooks.training import TrainingHook
from container_training.operators.burst import ChooseServiceOperator
from container_training.operators.training import SubmitTrainingJobOperator
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support.fakes.task_state import TaskState
from tests.support.waiting import wait_until
from training_api.dialects.ml_v1.resources import Job
from training_api.job.machines import Resources

GIB = 1024**3


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveService]:
    """A service of four cores that runs one job at a time; the connection ``local`` leads to it."""
    engine = MemoryEngine(Resources(cpus=4, memory_bytes=16 * GIB))
    with run_service(tmp_path / "local", engine=engine, max_replicas=1) as service:
        url = httpx.URL(service.endpoint)
        connection = {"conn_type": "container_training", "host": url.host, "port": url.port, "schema": "http"}
        extra = {"project": "demo-project", "job_bucket": "gs://here"}
        monkeypatch.setenv("AIRFLOW_CONN_LOCAL", json.dumps({**connection, "extra": extra}))
        yield service


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveService]:
    """Another service, asked by Vertex AI's API; the connection ``cloud`` leads to it."""
    with run_service(tmp_path / "cloud") as service:
        extra = {"project": "demo-project", "region": "us-central1", "job_bucket": "gs://there"}
        connection = {
            "conn_type": "vertex_training",
            "host": f"{service.endpoint}/vertex",
            "password": "a token",
        }
        monkeypatch.setenv("AIRFLOW_CONN_CLOUD", json.dumps({**connection, "extra": extra}))
        yield service


@pytest.fixture
def context() -> dict[str, Any]:
    return run_context("choose_service")


def run_context(task_id: str) -> dict[str, Any]:
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(
        dag_id="train",
        task_id=task_id,
        run_id="manual__1",
        map_index=-1,
        try_number=1,
        pushed=pushed,
        xcom_push=lambda key, value: pushed.update({key: value}),
    )
    return {"ti": ti, "task_state_store": TaskState()}


def choose(context: dict[str, Any], *, queue_minutes: float = 0.0, **changes: Any) -> dict[str, Any]:
    given = {"image": IMAGE, "master_type": "n1-standard-4", **changes}
    operator = ChooseServiceOperator(
        task_id="choose_service",
        training_conn_ids=given.pop("training_conn_ids", ["local", "cloud"]),
        queue_minutes=queue_minutes,
        **given,
    )
    return operator.execute(context)


def fill(jobs: int) -> None:
    """Submit jobs that never end to the local service, and wait until it has taken the first."""
    with TrainingHook("local") as hook:
        for number in range(jobs):
            job = {
                "jobId": f"filler_{number}",
                "trainingInput": {"region": "us-central1", "masterConfig": {"imageUri": IMAGE}},
            }
            hook.submit_job(Job.model_validate(job))
        queued = max(jobs - 1, 0)
        wait_until(
            lambda: (
                (fleet := hook.ops.fleet()).queue_length == queued
                and fleet.used is not None
                and (fleet.used.replicas == 1)
            ),
            "the service runs the first job",
        )


def test_a_job_stays_while_nobody_waits(
    local: LiveService, cloud: LiveService, context: dict[str, Any]
) -> None:
    fill(1)

    choice = choose(context, vertex_options={"strategy": "SPOT"})

    assert choice == {"training_conn_id": "local", "vertex_options": {}, "reason": ""}
    assert context["ti"].pushed == choice


def test_a_job_goes_on_when_the_queue_is_too_long_and_is_submitted_there(
    local: LiveService, cloud: LiveService, context: dict[str, Any]
) -> None:
    fill(2)

    choice = choose(context, vertex_options={"strategy": "SPOT"})

    assert choice["training_conn_id"] == "cloud"
    assert "the oldest of 1 queued jobs waits" in choice["reason"]
    submit = SubmitTrainingJobOperator(
        task_id="submit",
        image=IMAGE,
        master_type="n1-standard-4",
        training_conn_id=choice["training_conn_id"],
        vertex_options=choice["vertex_options"],
    )
    job_id = submit.execute(run_context("submit"))
    with TrainingHook("cloud") as hook:
        assert hook.get_job(str(job_id)).job_id == job_id
    with TrainingHook("local") as hook:
        assert {job.job_id for job in hook.list_jobs("", 10).jobs or []} == {"filler_0", "filler_1"}


def test_a_queue_that_is_short_enough_is_joined(
    local: LiveService, cloud: LiveService, context: dict[str, Any]
) -> None:
    fill(2)

    assert choose(context, queue_minutes=5)["training_conn_id"] == "local"


def test_a_choice_is_kept_when_the_task_runs_again(
    local: LiveService, cloud: LiveService, context: dict[str, Any]
) -> None:
    assert choose(context)["training_conn_id"] == "local"
    fill(2)

    assert choose(context)["training_conn_id"] == "local"
    context["task_state_store"].clear()  # another run
    assert choose(context, vertex_options={"strategy": "SPOT"})["training_conn_id"] == "cloud"
    # The DAG file was edited, and the run cleared.
    assert choose(context, vertex_options={})["vertex_options"] == {}


def test_a_machine_that_is_larger_than_the_service_goes_on(
    local: LiveService, cloud: LiveService, context: dict[str, Any]
) -> None:
    choice = choose(context, master_type="n1-standard-16")

    assert choice["training_conn_id"] == "cloud"
    assert "n1-standard-16 has 16 cores" in choice["reason"]


@pytest.mark.parametrize(
    ("job", "options"),
    [
        ({"image": IMAGE, "master_type": "e2-standard-4"}, {}),
        (
            {"image": None, "package_uris": ["gs://there/t.tar.gz"], "python_module": "t.task"},
            {"executor_image_uri": IMAGE},
        ),
    ],
    ids=["machine", "packages"],
)
def test_a_job_that_only_vertex_ai_has_goes_there_and_runs(
    local: LiveService,
    cloud: LiveService,
    context: dict[str, Any],
    job: dict[str, Any],
    options: dict[str, Any],
) -> None:
    choice = choose(context, vertex_options=options, **job)

    assert choice["training_conn_id"] == "cloud"
    assert "not local: it cannot run the job" in choice["reason"]
    submit = SubmitTrainingJobOperator(
        task_id="submit",
        training_conn_id="cloud",
        vertex_options=choice["vertex_options"],
        **({"master_type": "n1-standard-4"} | job),
    )
    job_id = submit.execute(run_context("submit"))
    with TrainingHook("cloud") as hook:
        assert hook.get_job(str(job_id)).job_id == job_id


def test_a_service_that_has_no_such_job_is_left_out_and_the_last_that_can_takes_it(
    local: LiveService, cloud: LiveService, context: dict[str, Any]
) -> None:
    fill(2)

    choice = choose(context, priority=7)

    assert choice["training_conn_id"] == "local"
    assert "not cloud: it cannot run the job" in choice["reason"]


def test_a_job_that_no_service_has_fails_at_once_with_the_reason_of_each(
    local: LiveService, cloud: LiveService, context: dict[str, Any]
) -> None:
    with pytest.raises(AirflowFailException, match=r"local: it cannot run.*cloud: it cannot run"):
        choose(context, master_type="n1-standard-5")


def test_a_service_of_one_name_is_all_there_is(local: LiveService, context: dict[str, Any]) -> None:
    fill(2)

    assert choose(context, training_conn_ids=["local"])["training_conn_id"] == "local"
    with pytest.raises(AirflowFailException, match="must be a list of connections"):
        choose(run_context("another"), training_conn_ids="local")
