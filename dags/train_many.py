"""
### Train every trainer with every configuration

Dynamic task mapping: each trainer becomes an image, and each image is trained with each configuration, all
side by side. A job that fails or is ended by a person ends alone; `best` picks the best of the results.

The service decides how many jobs run at a time; the others are QUEUED.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task, task_group
from airflow.sdk.exceptions import AirflowFailException

from container_training.operators.image import BuildImageOperator, PushImageOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

TRAINERS = Path(__file__).parents[1] / "docker" / "trainers"

with DAG(
    dag_id="train_many",
    schedule=None,
    catchup=False,
    tags=["container-training", "example"],
    doc_md=__doc__,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10)},
    params={
        "trainers": Param(
            ["digits"],
            type="array",
            minItems=1,
            items={"type": "string"},
            description="Folders with a Dockerfile: names below docker/trainers, or absolute paths",
        ),
        "configurations": Param(
            [f"--epochs 10 --learning-rate {rate}" for rate in (0.001, 0.005, 0.02)],
            type="array",
            minItems=1,
            items={"type": "string"},
            description="Arguments of the trainer, one line a configuration",
        ),
    },
):

    @task
    def images(params: dict[str, Any]) -> list[dict[str, str]]:
        """Return what is to be built: the arguments of a build for each trainer."""
        folders = [TRAINERS / name for name in params["trainers"]]
        return [{"context_dir": str(folder), "image": folder.name} for folder in folders]

    @task
    def configurations(params: dict[str, Any]) -> list[str]:
        """Return the configurations."""
        return list(params["configurations"])

    @task_group
    def train(image: str, args: str) -> Any:
        """One job; a group of its own, so that no task waits for another job's."""
        submit = SubmitTrainingJobOperator(
            task_id="submit",
            image=image,
            args=args,
            job_dir="{{ conn.training_default.extra_dejson.job_bucket }}/{job_id}",
            map_index_template="{{ task.args }}",
        )
        finished = TrainingJobSensor(
            task_id="wait_until_finished", job_id=submit.output, map_index_template="{{ task.job_id }}"
        )
        collect = CollectTrainingResultsOperator(
            task_id="collect", job_id=submit.output, map_index_template="{{ task.job_id }}"
        )
        submit >> finished >> collect
        return collect.output

    # Some of the jobs may have failed.
    @task(trigger_rule="all_done")
    def best(results: Any) -> dict[str, Any]:
        """Return the result with the highest accuracy."""
        # Airflow hands over a list; one result comes by itself, and none at all as None.
        found = [result for result in (results if isinstance(results, list) else [results]) if result]
        if not found:
            raise AirflowFailException("no job of this run left a result")
        return max(found, key=lambda result: result["metrics"]["accuracy"])

    build = BuildImageOperator.partial(task_id="build").expand_kwargs(images())
    push = PushImageOperator.partial(task_id="push").expand(image=build.output)
    best(train.expand(image=push.output, args=configurations()))
