"""Submission, wait and results in one task, for real; a function in a container."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG, task

from container_training.operators.training import SubmitTrainingJobOperator
from local_stack.parts.airflow import airflow_environment
from local_stack.stack import LocalStack
from tests.docker.reusable_trainer import TRAINER, object_store
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def connections(stack: LocalStack, base_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point Airflow's connections at the stack."""
    for name, value in airflow_environment(stack.settings, base_image=base_image).items():
        if not name.startswith("AIRFLOW_") or name.startswith("AIRFLOW_CONN_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", stack.settings.object_store_url)


def run(dag: DAG) -> Any:
    """Run the DAG, which has one task; return what that returned."""
    dag_run = dag.test()
    (ran,) = dag_run.get_task_instances()
    assert ran.state == "success"
    return ran.xcom_pull(task_ids=ran.task_id)


@pytest.mark.parametrize("deferrable", [True, False])
def test_one_task_submits_waits_and_collects(
    stack: LocalStack,
    pushed_image: ImageRef,
    training: TrainingClient,
    register_dag: Callable[[DAG], DAG],
    deferrable: bool,
) -> None:
    name = f"one_task_{uuid.uuid4().hex[:8]}"
    data = f"gs://{stack.settings.bucket}/data/{name}.txt"
    store = object_store(stack)
    store.write_if_changed(data, b"one two", "text/plain")
    store.close()
    with DAG(name, schedule=None) as dag:
        SubmitTrainingJobOperator(
            task_id="train",
            image=str(pushed_image),
            command=["python3", "-c", TRAINER],
            args=["--data", data],
            job_dir=f"{stack.settings.job_bucket}/{{job_id}}",
            wait_for_completion=True,
            deferrable=deferrable,
        )

    result = run(register_dag(dag))

    (job,) = training.list_jobs(f"labels.airflow-dag={name}").jobs or []
    assert (result["job_id"], result["state"], result["metrics"]) == (job.job_id, "SUCCEEDED", {"rows": 2})


def test_a_function_trains_in_a_container(
    stack: LocalStack,
    pushed_image: ImageRef,
    training: TrainingClient,
    register_dag: Callable[[DAG], DAG],
) -> None:
    name = f"function_{uuid.uuid4().hex[:8]}"
    with DAG(name, schedule=None) as dag:

        @task.training_job(image=str(pushed_image), deferrable=True)
        def train(number: int, power: float = 1.0, job_dir: str = "") -> dict[str, Any]:
            import os

            return {"value": number**power, "user": os.getuid(), "job_dir": job_dir}

        train(4, power=0.5)

    result = run(register_dag(dag))

    (job,) = training.list_jobs(f"labels.airflow-dag={name}").jobs or []
    folder = f"{stack.settings.job_bucket}/{job.job_id}"
    assert result["job_id"] == job.job_id
    assert (result["metrics"]["value"], result["metrics"]["job_dir"]) == (2.0, folder)
    assert [file["uri"] for file in result["files"]] == [f"{folder}/metrics.json"]
