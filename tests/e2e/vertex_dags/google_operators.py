"""
DAGs of the operators for Vertex AI that Google's provider has, as they are published.

``e2e/test_google_operators.py`` puts this file where Airflow reads it, with its own values.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomContainerTrainingJobOperator,
    CreateCustomJobOperator,
    DeleteCustomTrainingJobOperator,
    ListCustomTrainingJobOperator,
)
from airflow.sdk import DAG

IMAGE, PROJECT, BUCKET, TAG = "{image}", "{project}", "{bucket}", "{tag}"
# The trigger finds a short job ended at once, and Airflow may then fail the try: apache/airflow#72716.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=10)}
PLACE = {"project_id": PROJECT, "region": "us-central1"}
TRAINER = "import os; print('trained in', os.environ['CLOUD_ML_REGION'])"
FAILING = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "replica_count": 1,
    "container_spec": {"image_uri": IMAGE, "command": ["python3", "-c", "raise SystemExit(7)"]},
}


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
            task_id=f"fail_{name}",
            custom_job={"display_name": f"{TAG}-{name}", "job_spec": {"worker_pool_specs": [FAILING]}},
            deferrable=deferrable,
            poll_interval=5,
            retries=0,
            **PLACE,
        )

with DAG("google_training_pipelines", schedule=None, catchup=False, default_args=RETRIES):
    created = pipeline("create", deferrable=False)
    deferred = pipeline("create_deferred", deferrable=True, poll_interval=5)
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
