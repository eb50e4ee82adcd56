"""
### Train with a Python package

No image and no Dockerfile: the trainer in `docker/trainers/packaged` is packaged, uploaded and run on the
service's runtime image, which installs it and what it requires first. The same as `gcloud ai-platform jobs
submit training --package-path`.
"""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, Param

from container_training.operators.package import PackageTrainerOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor

TRAINER = Path(__file__).parents[1] / "docker" / "trainers" / "packaged" / "trainer"
BUCKET = "{{ conn.training_default.extra_dejson.job_bucket }}"
MODULE = "trainer.task"

with DAG(
    dag_id="train_package",
    schedule=None,
    catchup=False,
    tags=["container-training", "example"],
    doc_md=__doc__,
    default_args={"retries": 2},
    params={
        "steps": Param(
            200, type="integer", minimum=1, maximum=10_000, description="Steps of gradient descent"
        ),
        "runtime_version": Param(
            "2.11", type="string", description="What the job runs on; its log says more"
        ),
    },
):
    package = PackageTrainerOperator(
        task_id="package", package_path=str(TRAINER), staging=BUCKET + "/packages", python_module=MODULE
    )
    submit = SubmitTrainingJobOperator(
        task_id="submit",
        package_uris=package.output,
        python_module=MODULE,
        runtime_version="{{ params.runtime_version }}",
        python_version="3.7",
        args=["--steps", "{{ params.steps }}"],
        job_dir=BUCKET + "/{job_id}",
    )
    finished = TrainingJobSensor(task_id="wait_until_finished", job_id=submit.output)
    collect = CollectTrainingResultsOperator(task_id="collect", job_id=submit.output, model_file="model.json")
    package >> submit >> finished >> collect
