"""CustomJobs of Vertex AI in a real stack, by google-api-python-client as it is published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.auth.credentials import AnonymousCredentials
from googleapiclient import discovery

from local_stack.stack import LocalStack
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef


@contextmanager
def custom_jobs(stack: LocalStack) -> Iterator[Any]:
    """Yield ``projects.locations.customJobs`` of the client."""
    client = discovery.build(
        "aiplatform",
        "v1",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": f"{stack.settings.training_url}/vertex/"},
        cache_discovery=False,
    )
    try:
        yield client.projects().locations().customJobs()
    finally:
        client.close()


def run_custom_job(jobs: Any, project: str, pools: list[dict[str, Any]], **job_spec: Any) -> dict[str, Any]:
    """Create a job and return it when it has ended."""
    body = {"displayName": "real", "jobSpec": {"workerPoolSpecs": pools, **job_spec}}
    created = jobs.create(parent=f"projects/{project}/locations/us-central1", body=body).execute()

    def ended() -> dict[str, Any]:
        job: dict[str, Any] = jobs.get(name=created["name"]).execute()
        assert "endTime" in job, job["state"]
        return job

    return wait_until(ended, f"{created['name']} has ended", seconds=120, ignoring=AssertionError)


def make_real_pool(image: ImageRef | str, program: str = "", *args: str, **env: str) -> dict[str, Any]:
    """Return a pool of one replica that runs a Python program; empty: what the image runs."""
    container = {
        "imageUri": str(image),
        **({"command": ["python3", "-u", "-c", program]} if program else {}),
        "args": list(args),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": container,
    }
