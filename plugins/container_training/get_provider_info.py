"""Describes this distribution to Airflow: the connection type and its form."""

from __future__ import annotations

from typing import Any

from container_training import __version__


def get_provider_info() -> dict[str, Any]:
    """
    Return the provider description; entry point ``apache_airflow_provider``.

    Airflow calls it in every process that it starts, so it imports nothing. It declares the form's fields,
    too (``conn-fields``, ``ui-field-behaviour``): Airflow 3.2 deprecated the hook methods for them.
    """
    return {
        "package-name": "airflow-container-training",  # must equal the distribution's name
        "name": "Container training",
        "description": "Train models in custom containers on a service that speaks AI Platform Training's API.",
        "versions": [__version__],
        "extra-links": [
            "container_training.operators.plots.ParallelCoordinatesLink",
            "container_training.operators.plots.BestSoFarLink",
            "container_training.links.training.JobPageLink",
            "container_training.links.training.JobLogLink",
            "container_training.links.training.JobFolderLink",
        ],
        "task-decorators": [
            {
                "name": "training_job",
                "class-name": "container_training.decorators.training_job.training_job_task",
            },
        ],
        "notifications": ["container_training.notifiers.training.TrainingJobNotifier"],
        "connection-types": [
            {
                "connection-type": "container_training",
                "hook-class-name": "container_training.hooks.training.TrainingHook",
                "hook-name": "Container training",
                "conn-fields": {
                    **_OF_JOBS,
                    **_NETWORK,
                    **_POLICIES,
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["login"],
                    "relabeling": {"schema": "Scheme (http or https)", "password": "Bearer token"},
                    "placeholders": {"host": "127.0.0.1", "port": "8470", "schema": "http"},
                },
            },
            {
                "connection-type": "vertex_training",
                "hook-class-name": "container_training.hooks.training.VertexTrainingHook",
                "hook-name": "Vertex AI training",
                "conn-fields": {
                    **_OF_JOBS,
                    "region": _text("Region", "Where jobs run, like europe-west4; empty: us-central1."),
                    "regions": _text(
                        "Regions",
                        "In place of one region: all where jobs may be; new ones are made in the first.",
                    ),
                    "gcp_conn_id": _text(
                        "Google connection", "Whose credentials are used; empty: google_cloud_default."
                    ),
                    "impersonation_chain": _text(
                        "Impersonation chain",
                        "Service accounts to act as, separated by commas, the last one in the end.",
                    ),
                    "quota_project": _text("Quota project", "Project that the calls are counted for."),
                    "project_number": _text(
                        "Project number",
                        "Of the service agent that pulls images; empty: the Resource Manager is asked.",
                    ),
                    "list_lag_seconds": _text(
                        "Lag of lists", "Seconds for which a new job may be missing from lists; empty: 60."
                    ),
                    "logging_endpoint": _text(
                        "Cloud Logging URL",
                        "Where logs are read; empty: Google, or the host of this connection.",
                    ),
                    **_NETWORK,
                    **_POLICIES,
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["login"],
                    "relabeling": {
                        "host": "Endpoint (empty: Google's)",
                        "schema": "Scheme (http or https)",
                        "password": "Bearer token (empty: of the Google connection)",
                    },
                    "placeholders": {"host": "http://127.0.0.1:8470/vertex"},
                },
            },
            {
                "connection-type": "mlflow_registry",
                "hook-class-name": "container_training.hooks.model_registry.ModelRegistryHook",
                "hook-name": "MLflow model registry",
                "conn-fields": {
                    "model": _text(
                        "Registered model", "Its name in MLflow; empty: the last part of the model's folder."
                    ),
                },
                "ui-field-behaviour": {
                    "hidden-fields": [],
                    "relabeling": {
                        "schema": "Scheme (http or https)",
                        "password": "Password, or bearer token without a login",
                    },
                    "placeholders": {"host": "127.0.0.1", "port": "5500", "schema": "http"},
                },
            },
        ],
    }


def _endpoint(api: str) -> dict[str, Any]:
    description = (
        f"Where grants find {api}'s policies; empty: the training service, or Google where that is Google's."
    )
    return _text(f"{api} URL", description)


def _text(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}


#: Of a connection to any training service: what its jobs have in common.
_OF_JOBS = {
    "project": _text("Project", "Project id under which jobs are submitted."),
    "job_bucket": _text("Job folder", "Cloud Storage folder for data and results, like gs://my-bucket/jobs."),
    "buckets": _text(
        "More buckets",
        "Buckets of other projects that jobs may name for their results, separated by commas.",
    ),
    "image_prefix": _text(
        "Image prefix", "HOST/PROJECT of the registry, below which short names of images lie."
    ),
    "registry": _text(
        "Registry of the service",
        "HOST:PORT of the registry whose images need a grant; empty: one on this machine. Google's need no entry.",
    ),
    "base_image": _text("Base image", "BASE_IMAGE build argument of Dockerfiles; empty: their own default."),
    "container_env": _text(
        "Container environment",
        "JSON object of environment variables that local test runs get, as jobs do.",
    ),
    "prices": _text(
        "Prices",
        "JSON object of machine types and accelerators and their prices per second; what jobs cost.",
    ),
    "currency": _text("Currency", "What the prices are in, like EUR."),
    "min_poll_seconds": _text(
        "Shortest pause",
        "Seconds between two looks at the jobs that are waited for; empty: 0.5.",
    ),
}
#: How it is reached.
_NETWORK = {
    "verify": _text(
        "Authorities",
        "Path of the certificates of authorities that are trusted; empty: the usual ones; false: any.",
    ),
    "client_certificate": _text("Client certificate", "Path of its file, for services that want one."),
    "client_key": _text("Client key", "Path of its file; empty: it is with the certificate."),
    "proxy": _text("Proxy", "URL; empty: what the environment says."),
}
#: Where its policies are.
_POLICIES = {
    "resource_manager_endpoint": _endpoint("Resource Manager"),
    "artifact_registry_endpoint": _endpoint("Artifact Registry"),
    "storage_endpoint": _endpoint("Cloud Storage"),
}
