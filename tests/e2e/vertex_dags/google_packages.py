"""
A DAG of the operators for packages and scripts of Google's provider, as published.

``e2e/test_google_operators.py`` puts this file where Airflow reads it, with its own values.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomPythonPackageTrainingJobOperator,
    CreateCustomTrainingJobOperator,
    DeleteCustomTrainingJobOperator,
)
from airflow.sdk import DAG
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform

PROJECT, BUCKET, TAG = "{project}", "{bucket}", "{tag}"
PREBUILT, PACKAGE, SCRIPT, VARIABLES = "{prebuilt}", "{package}", "{script}", "{variables}"
# The trigger finds a short job ended at once, and Airflow may then fail the try: apache/airflow#72716.
RETRIES = {"retries": 2, "retry_delay": timedelta(seconds=10)}
PLACE = {"project_id": PROJECT, "region": "us-central1"}

# The SDK asks for the Model of a pipeline with these, not with those of the connection.
aiplatform.init(project=PROJECT, credentials=AnonymousCredentials())

with DAG("google_packages", schedule=None, catchup=False, default_args=RETRIES):
    for name, how in (
        ("sync", {"deferrable": False}),
        ("deferred", {"deferrable": True, "poll_interval": 5}),
    ):
        prebuilt: dict[str, Any] = {
            "container_uri": PREBUILT,
            "staging_bucket": f"gs://{BUCKET}",
            "environment_variables": VARIABLES,
            **PLACE,
            **how,
        }
        package = CreateCustomPythonPackageTrainingJobOperator(
            task_id=f"package_{name}",
            display_name=f"{TAG}-package-{name}",
            python_package_gcs_uri=PACKAGE,
            python_module_name="trainer.task",
            args=["--of", "the package"],
            **prebuilt,
        )
        CreateCustomTrainingJobOperator(
            task_id=f"script_{name}",
            display_name=f"{TAG}-script-{name}",
            script_path=SCRIPT,
            args=["--of", "the script"],
            model_serving_container_image_uri="us-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-2:latest",
            model_display_name=f"{TAG}-script-{name}",
            **prebuilt,
        )
        package >> DeleteCustomTrainingJobOperator(
            task_id=f"delete_{name}",
            training_pipeline_id=f"{{{{ ti.xcom_pull(task_ids='package_{name}', key='training_id') }}}}",
            custom_job_id=f"{{{{ ti.xcom_pull(task_ids='package_{name}', key='custom_job_id') }}}}",
            **PLACE,
        )
