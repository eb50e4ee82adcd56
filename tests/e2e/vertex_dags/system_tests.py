"""
DAGs with the tasks and values of Airflow's system tests of Google's provider.

They are ``example_vertex_ai_create_custom_job``, ``..._list_custom_jobs`` and
``..._hyperparameter_tuning_job``, without a schedule and without what reports to Airflow's own test runner.
Images are those of the originals, by ``TRAINING_IMAGE_ALIASES``.

``e2e/test_google_operators.py`` puts this file where Airflow reads it, with its own values.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.google.cloud.operators.gcs import GCSCreateBucketOperator, GCSDeleteBucketOperator
from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomJobOperator,
    ListCustomTrainingJobOperator,
)
from airflow.providers.google.cloud.operators.vertex_ai.hyperparameter_tuning_job import (
    CreateHyperparameterTuningJobOperator,
    DeleteHyperparameterTuningJobOperator,
    GetHyperparameterTuningJobOperator,
    ListHyperparameterTuningJobOperator,
)
from airflow.sdk import DAG, TriggerRule
from google.cloud.aiplatform import hyperparameter_tuning

PROJECT, TAG = "{project}", "{tag}"
REGION = "us-central1"
# The trigger finds a short job ended at once, and Airflow may then fail the try: apache/airflow#72716.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=10)}
PLACE = {"project_id": PROJECT, "region": REGION}
MACHINE = {
    "machine_type": "n1-standard-4",
    "accelerator_type": "ACCELERATOR_TYPE_UNSPECIFIED",
    "accelerator_count": 0,
}


def pool(**container: Any) -> dict[str, Any]:
    return {"machine_spec": MACHINE, "replica_count": 1, "container_spec": container}


with DAG("vertex_ai_create_custom_job", schedule=None, catchup=False, default_args=RETRIES):
    for suffix, deferrable in (
        ("", False),
        ("_def", True),
    ):  # False is the default of Airflow, not of the stack
        CreateCustomJobOperator(
            task_id=f"create_custom_job{suffix}",
            custom_job={
                "display_name": f"vertex_ai_create_custom_job_{TAG}{suffix}",
                "labels": {
                    "vertex_pipelines": "",
                    "airflow_dag_id": "vertex_ai_create_custom_job",
                    "airflow_task_id": "vertex_ai_create_custom_job",
                },
                "job_spec": {
                    "scheduling": {"disable_retries": True},
                    "worker_pool_specs": [
                        pool(
                            image_uri="us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-16.py310:latest",
                            command=["python3", "-c", "import math; print('pi is', math.pi)"],
                        )
                    ],
                },
            },
            deferrable=deferrable,
            **PLACE,
        )

with DAG(
    "vertex_ai_custom_job_operations_list_custom_job", schedule=None, catchup=False, default_args=RETRIES
):
    ListCustomTrainingJobOperator(task_id="list_custom_training_job", **PLACE)

with DAG(
    "vertex_ai_hyperparameter_tuning_job_operations", schedule=None, catchup=False, default_args=RETRIES
):
    BUCKET = f"bucket_hyperparameter_tuning_job_{TAG}"
    create_bucket = GCSCreateBucketOperator(
        task_id="create_bucket", bucket_name=BUCKET, storage_class="REGIONAL", location=REGION
    )
    created, deleted = [], []
    for suffix, deferrable in (
        ("", False),
        ("_def", True),
    ):  # False is the default of Airflow, not of the stack
        create = CreateHyperparameterTuningJobOperator(
            task_id=f"create_hyperparameter_tuning_job{suffix}",
            staging_bucket=f"gs://{BUCKET}",
            display_name=f"hyperparameter-tuning-job-{TAG}",
            worker_pool_specs=[
                pool(image_uri="us-docker.pkg.dev/composer-256318/horse-human/horse-human-image:latest")
            ],
            parameter_spec={
                "learning_rate": hyperparameter_tuning.DoubleParameterSpec(min=0.01, max=1, scale="log"),
                "momentum": hyperparameter_tuning.DoubleParameterSpec(min=0, max=1, scale="linear"),
                "num_neurons": hyperparameter_tuning.DiscreteParameterSpec(
                    values=[64, 128, 512], scale="linear"
                ),
            },
            metric_spec={"accuracy": "maximize"},
            max_trial_count=15,
            parallel_trial_count=3,
            deferrable=deferrable,
            **PLACE,
        )
        delete = DeleteHyperparameterTuningJobOperator(
            task_id=f"delete_hyperparameter_tuning_job{suffix}",
            hyperparameter_tuning_job_id=(
                f"{{{{ task_instance.xcom_pull(task_ids='{create.task_id}', "
                "key='hyperparameter_tuning_job_id') }}"
            ),
            trigger_rule=TriggerRule.ALL_DONE,
            **PLACE,
        )
        created.append(create)
        deleted.append(delete)
    get = GetHyperparameterTuningJobOperator(
        task_id="get_hyperparameter_tuning_job",
        hyperparameter_tuning_job_id=(
            "{{ task_instance.xcom_pull(task_ids='create_hyperparameter_tuning_job', "
            "key='hyperparameter_tuning_job_id') }}"
        ),
        **PLACE,
    )
    listed = ListHyperparameterTuningJobOperator(task_id="list_hyperparameter_tuning_job", **PLACE)
    delete_bucket = GCSDeleteBucketOperator(
        task_id="delete_bucket", bucket_name=BUCKET, trigger_rule=TriggerRule.ALL_DONE
    )
    create_bucket >> created >> get >> deleted >> listed >> delete_bucket
