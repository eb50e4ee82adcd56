"""``reuse_results`` for real: train, reuse the results, train again after a change."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from airflow.sdk import DAG

from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor
from container_training.step import training_step
from container_training.work.object_store import ObjectStore
from local_stack.parts.airflow import airflow_environment
from local_stack.stack import LocalStack
from tests.docker.reusable_trainer import TRAINER, object_store
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]


@pytest.fixture
def store(stack: LocalStack, base_image: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Return the object store, and point Airflow's connections at the stack."""
    for name, value in airflow_environment(stack.settings, base_image=base_image).items():
        if not name.startswith("AIRFLOW_") or name.startswith("AIRFLOW_CONN_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", stack.settings.object_store_url)
    with closing(object_store(stack)) as store:
        yield store


@dataclass(frozen=True)
class Data:
    """An object that jobs read; ``name`` is free for a DAG, too."""

    name: str
    uri: str


@pytest.fixture
def two_words(stack: LocalStack, store: ObjectStore) -> Data:
    """Write an object with two words."""
    name = f"reuse_{uuid.uuid4().hex[:8]}"
    data = Data(name, f"gs://{stack.settings.bucket}/data/{name}.txt")
    store.write_if_changed(data.uri, b"one two", "text/plain")
    return data


def make_dag(
    name: str,
    image: ImageRef,
    data: str,
    job_bucket: str,
    conn_id: str = "training_default",
    reuse_from: Sequence[str] = (),
) -> DAG:
    with DAG(name, schedule=None, default_args={"training_conn_id": conn_id}) as dag:
        submit = SubmitTrainingJobOperator(
            task_id="submit",
            image=str(image),
            command=["python3", "-c", TRAINER],
            args=["--data", data],
            data_uris=[data],
            job_dir=f"{job_bucket}/{{job_id}}",
            reuse_results=True,
            reuse_from=reuse_from,
        )
        of_job: Any = {"job_id": submit.output, "training_conn_id": submit.output["training_conn_id"]}
        finished = TrainingJobSensor(task_id="finished", **of_job)
        collect = CollectTrainingResultsOperator(task_id="collect", reused=submit.output["reused"], **of_job)
        submit >> finished >> collect
    return dag


def make_dag_of_step(name: str, image: ImageRef, data: str) -> DAG:
    """Return a DAG with one step, whose model has another name than the default."""
    with DAG(name, schedule=None) as dag:
        training_step(
            "train",
            image=str(image),
            command=["python3", "-c", TRAINER.replace("model.joblib", "model.json")],
            args=["--data", data],
            data_uris=[data],
            model_file="model.json",
            reuse_results=True,
        )
    return dag


def run(dag: DAG) -> Mapping[str, Any]:
    """Run the DAG to its end; return the result that it collected."""
    dag_run = dag.test()
    states = {task.task_id: task.state for task in dag_run.get_task_instances()}
    assert states == dict.fromkeys(dag.task_ids, "success")
    (collect,) = [task for task in dag_run.get_task_instances() if task.task_id.endswith("collect")]
    result: Mapping[str, Any] = collect.xcom_pull(task_ids=collect.task_id)
    return result


def test_a_step_takes_its_earlier_job_by_the_model_that_it_names(
    two_words: Data, pushed_image: ImageRef, training: TrainingClient, register_dag: Callable[[DAG], DAG]
) -> None:
    dag = register_dag(make_dag_of_step(two_words.name, pushed_image, two_words.uri))

    first, second = run(dag), run(dag)

    jobs = [job.job_id for job in training.list_jobs(f"labels.airflow-dag={two_words.name}").jobs or []]
    assert jobs == [first["job_id"]] == [second["job_id"]]
    assert (first["reused"], second["reused"]) == (False, True)
    assert second["model_uri"] == first["model_uri"] == f"{first['job_dir']}/model.json"
    assert (first["cost"]["total"] > 0, second["cost"]["total"]) == (True, 0.0)


def test_a_job_is_taken_again_until_its_data_change(
    stack: LocalStack,
    store: ObjectStore,
    two_words: Data,
    pushed_image: ImageRef,
    training: TrainingClient,
    register_dag: Callable[[DAG], DAG],
) -> None:
    dag = register_dag(make_dag(two_words.name, pushed_image, two_words.uri, stack.settings.job_bucket))

    first, second = run(dag), run(dag)
    store.write_if_changed(two_words.uri, b"one two three", "text/plain")
    third = run(dag)

    jobs = [job.job_id for job in training.list_jobs(f"labels.airflow-dag={two_words.name}").jobs or []]
    assert sorted(jobs) == sorted([first["job_id"], third["job_id"]])
    assert (first["reused"], second["reused"], third["reused"]) == (False, True, False)
    assert [result["metrics"] for result in (first, second, third)] == [
        {"rows": 2},
        {"rows": 2},
        {"rows": 3},
    ]
    same = ("job_id", "job_dir", "model_uri", "files", "seconds", "job_url")
    assert {key: second[key] for key in same} == {key: first[key] for key in same}
    assert (first["cost"]["total"] > 0, second["cost"]["total"]) == (True, 0.0)


@pytest.mark.extended
def test_vertex_ai_takes_its_own_earlier_job(
    stack: LocalStack, two_words: Data, pushed_image: ImageRef, register_dag: Callable[[DAG], DAG]
) -> None:
    """Its records are in other words than the request, and of the same content."""
    bucket = stack.settings.job_bucket
    dag = register_dag(make_dag(two_words.name, pushed_image, two_words.uri, bucket, "training_vertex"))

    first, second = run(dag), run(dag)

    assert first["job_id"].isdecimal()
    assert (first["reused"], second["reused"]) == (False, True)
    assert (second["job_id"], second["files"]) == (first["job_id"], first["files"])
    assert second["metrics"] == {"rows": 2}


@pytest.mark.extended
@pytest.mark.parametrize(
    ("first_on", "second_on"),
    [("training_vertex", "training_default"), ("training_default", "training_vertex")],
)
def test_a_job_of_the_other_api_is_taken(
    stack: LocalStack,
    two_words: Data,
    pushed_image: ImageRef,
    register_dag: Callable[[DAG], DAG],
    first_on: str,
    second_on: str,
) -> None:
    described = (pushed_image, two_words.uri, stack.settings.job_bucket)
    first = run(register_dag(make_dag(two_words.name, *described, first_on)))

    second = run(register_dag(make_dag(f"{two_words.name}_2", *described, second_on, [first_on])))

    assert (first["reused"], second["reused"]) == (False, True)
    same = ("job_id", "job_dir", "model_uri", "files", "metrics", "job_url")
    assert {key: second[key] for key in same} == {key: first[key] for key in same}
    assert (first["cost"]["total"] > 0, second["cost"]["total"]) == (True, 0.0)
