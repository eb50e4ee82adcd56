"""
DAGs of the operators for Vertex AI that Google's provider has, as they are published.

``e2e/test_google_operators.py`` puts this file where Airflow reads it, with its own values.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomContainerTrainingJobOperator,
    CreateCustomJobOperator,
    DeleteCustomTrainingJobOperator,
    ListCustomTrainingJobOperator,
)
from airflow.providers.google.cloud.operators.vertex_ai.hyperparameter_tuning_job import (
    CreateHyperparameterTuningJobOperator,
    DeleteHyperparameterTuningJobOperator,
    GetHyperparameterTuningJobOperator,
    ListHyperparameterTuningJobOperator,
)
from airflow.sdk import DAG
from google.cloud.aiplatform import hyperparameter_tuning

IMAGE, PROJECT, BUCKET, TAG = "{image}", "{project}", "{bucket}", "{tag}"
PLACE = {"project_id": PROJECT, "region": "us-central1"}
TRAINER = "import os; print('trained in', os.environ['CLOUD_ML_REGION'])"
#: As cloudml-hypertune writes it.
TUNED = """
import json, os, sys, time
rate = float(sys.argv[1].partition("=")[2])
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "a") as file:
    report = {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"], "accuracy": str(1 - rate)}
    print(json.dumps(report | {"global_step": "1"}), file=file)
"""


def pool(program: str) -> dict[str, Any]:
    return {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": IMAGE, "command": ["python3", "-u", "-c", program]},
    }


def custom_job(name: str, program: str) -> dict[str, Any]:
    return {"display_name": f"{TAG}-{name}", "job_spec": {"worker_pool_specs": [pool(program)]}}


def pipeline(task_id: str, **how: Any) -> CreateCustomContainerTrainingJobOperator:
    return CreateCustomContainerTrainingJobOperator(
        task_id=task_id,
        display_name=f"{TAG}-{task_id}",
        container_uri=IMAGE,
        command=["python3", "-u", "-c", TRAINER],
        staging_bucket=f"gs://{BUCKET}",
        replica_count=1,
        machine_type="n1-standard-4",
        **how,
        **PLACE,
    )


with DAG("google_custom_jobs", schedule=None, catchup=False):
    for name, deferrable in (("sync", False), ("deferred", True)):
        CreateCustomJobOperator(
            task_id=f"create_{name}",
            custom_job=custom_job(name, TRAINER),
            deferrable=deferrable,
            poll_interval=1,
            **PLACE,
        )
        CreateCustomJobOperator(
            task_id=f"fail_{name}",
            custom_job=custom_job(f"fail-{name}", "raise SystemExit(7)"),
            deferrable=deferrable,
            poll_interval=1,
            retries=0,
            **PLACE,
        )

with DAG("google_training_pipelines", schedule=None, catchup=False):
    created = pipeline("create", deferrable=False)
    deferred = pipeline("create_deferred", deferrable=True, poll_interval=1)
    listed = ListCustomTrainingJobOperator(
        task_id="list", filter=f'display_name="{TAG}-create"', page_size=10, **PLACE
    )
    deleted = DeleteCustomTrainingJobOperator(
        task_id="delete",
        training_pipeline_id="{{ ti.xcom_pull(task_ids='create', key='training_id') }}",
        custom_job_id="{{ ti.xcom_pull(task_ids='create', key='custom_job_id') }}",
        **PLACE,
    )
    created >> listed >> deleted

with DAG("google_tuning_jobs", schedule=None, catchup=False):
    jobs = {
        name: CreateHyperparameterTuningJobOperator(
            task_id=f"tune_{name}",
            display_name=f"{TAG}-{name}",
            metric_spec={"accuracy": "maximize"},
            parameter_spec={
                "rate": hyperparameter_tuning.DoubleParameterSpec(min=0.1, max=0.9, scale="linear")
            },
            max_trial_count=2,
            parallel_trial_count=2,
            search_algorithm="random",
            worker_pool_specs=[pool(TUNED)],
            staging_bucket=f"gs://{BUCKET}",
            deferrable=deferrable,
            poll_interval=1,
            **PLACE,
        )
        for name, deferrable in (("sync", False), ("deferred", True))
    }
    tuned = "{{ ti.xcom_pull(task_ids='tune_sync', key='hyperparameter_tuning_job_id') }}"
    (
        jobs["sync"]
        >> GetHyperparameterTuningJobOperator(task_id="get", hyperparameter_tuning_job_id=tuned, **PLACE)
        >> ListHyperparameterTuningJobOperator(task_id="list", page_size=10, **PLACE)
        >> DeleteHyperparameterTuningJobOperator(
            task_id="delete", hyperparameter_tuning_job_id=tuned, **PLACE
        )
    )
