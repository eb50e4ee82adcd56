"""Dynamic task mapping over images, configurations and regions, on real parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG

from container_training.operators.registry_iam import (
    GrantRegistryAccessOperator,
    RevokeRegistryAccessOperator,
)
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor
from local_stack.parts.airflow import airflow_environment
from local_stack.people.credentials import airflow_token
from local_stack.stack import LocalStack
from tests.support.bed.tiny_trainer import write_trainer
from tests.support.own_images import remove_own_images
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = pytest.mark.docker

MANY = Path(__file__).parents[2] / "dags" / "train_many.py"


@pytest.fixture(autouse=True)
def connections(stack: LocalStack, base_image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = airflow_environment(
        stack.settings, base_image=base_image, token=airflow_token(stack.settings)
    )
    for name, value in environment.items():
        if not name.startswith("AIRFLOW_") or name.startswith("AIRFLOW_CONN_"):
            monkeypatch.setenv(name, value)


def jobs_of(training: TrainingClient, dag_id: str) -> list[Job]:
    return training.list_jobs(f'labels.airflow-dag="{dag_id}"', page_size=100).jobs or []


@pytest.mark.extended
def test_every_image_is_trained_with_every_configuration_and_the_best_is_found(
    training: TrainingClient,
    stack: LocalStack,
    engine_client: docker.APIClient,
    register_dag: Callable[[DAG], DAG],
    tmp_path: Path,
) -> None:
    bag = DagBag(str(MANY), collect_dags=False)
    bag.collect_dags(str(MANY))
    assert bag.import_errors == {}
    dag: Any = register_dag(bag.dags["train_many"])  # type: ignore[arg-type]
    trainers = [str(write_trainer(tmp_path, name=f"tiny-{name}")) for name in ("one", "two")]
    configurations = [
        "--accuracy 0.6 --epochs 1",
        "--accuracy 0.9 --epochs 2",
        "--accuracy 0.99 --exit-code 3",
    ]

    try:
        run = dag.test(run_conf={"trainers": trainers, "configurations": configurations})
        jobs = jobs_of(training, "train_many")
        # One result comes to ``best`` by itself, not as a list.
        single = dag.test(run_conf={"trainers": trainers[:1], "configurations": configurations[:1]})
    finally:
        remove_own_images(engine_client, lambda name: "/tiny-" in name)

    asked = {
        (
            job.training_input.master_config.image_uri.partition("@")[0].rpartition("/")[2],  # type: ignore[union-attr]
            " ".join(job.training_input.args or ()),  # type: ignore[union-attr]
        )
        for job in jobs
    }
    assert asked == {
        (name, configuration) for name in ("tiny-one", "tiny-two") for configuration in configurations
    }
    assert len({job.job_id for job in jobs}) == len(jobs) == 6
    tasks = run.get_task_instances()
    ends = [str(task.state) for task in tasks if task.task_id == "train.collect"]
    assert sorted(ends) == ["success"] * 4 + ["upstream_failed"] * 2
    assert {task.rendered_map_index for task in tasks if task.task_id == "train.submit"} == set(
        configurations
    )
    (best,) = [task for task in tasks if task.task_id == "best"]
    result = best.xcom_pull(task_ids="best")
    assert (result["metrics"]["accuracy"], result["job_id"] in {job.job_id for job in jobs}) == (0.9, True)
    assert single.state == "success"


def test_a_job_is_mapped_over_regions_and_over_files_and_its_waits_over_both(
    training: TrainingClient, register_dag: Callable[[DAG], DAG], pushed_image: ImageRef, tmp_path: Path
) -> None:
    files = []
    for number in (1, 2):
        file = tmp_path / f"config{number}.yaml"
        file.write_text(f'labels:\n  number: "{number}"\n')
        files.append(str(file))
    with DAG("mapped_regions", schedule=None) as dag:
        submit = SubmitTrainingJobOperator.partial(
            task_id="submit", image=str(pushed_image), command=["python3", "-c", "print(1)"]
        ).expand(region=["us-central1", "europe-west4"], config_file=files)
        TrainingJobSensor.partial(task_id="scheduled", until="left_queued").expand(job_id=submit.output)
        TrainingJobSensor.partial(task_id="finished").expand(job_id=submit.output)

    run = register_dag(dag).test()

    jobs = jobs_of(training, "mapped_regions")
    assert {str(task.state) for task in run.get_task_instances()} == {"success"}
    assert {(job.training_input.region, job.labels["number"]) for job in jobs} == {  # type: ignore[union-attr, index]
        (region, number) for region in ("us-central1", "europe-west4") for number in ("1", "2")
    }
    assert {job.state for job in jobs} == {JobState.SUCCEEDED}
    assert len({job.job_id for job in jobs}) == 4


def test_grants_are_mapped_over_images_and_taken_back_one_by_one(
    register_dag: Callable[[DAG], DAG], stack: LocalStack
) -> None:
    images = [f"{stack.settings.registry}/mapped-project/{name}:1" for name in ("one", "two")]
    with DAG("mapped_grants", schedule=None) as dag:
        grant = GrantRegistryAccessOperator.partial(task_id="grant").expand_kwargs(
            [{"image": image} for image in images]
        )
        RevokeRegistryAccessOperator.partial(task_id="revoke").expand(grant=grant.output)

    run = register_dag(dag).test()

    revokes = [task for task in run.get_task_instances() if task.task_id == "revoke"]
    revoked = [
        entry["resource"]
        for task in revokes
        for entry in task.xcom_pull(task_ids="revoke", map_indexes=task.map_index)["revoked"]
    ]
    assert sorted(name.rpartition("/")[2] for name in revoked) == ["one", "two"]
