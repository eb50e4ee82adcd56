"""Jobs of Vertex AI that benchmarks submit and look at, over REST and over gRPC."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx

_PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 0.01
_FAILED = ("JOB_STATE_FAILED", "JOB_STATE_CANCELLED")


def custom_job(image: str, command: Sequence[str] = ()) -> dict[str, Any]:
    """Return a CustomJob of one replica."""
    container = {"imageUri": image, **({"command": list(command)} if command else {})}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": "1", "containerSpec": container}
    return {"displayName": "bench", "jobSpec": {"workerPoolSpecs": [pool]}}


def collection_of(project: str) -> str:
    """Return the path of a project's CustomJobs in the service's REST."""
    return f"/vertex/v1/projects/{project}/locations/us-central1/customJobs"


def wait_until_started(client: httpx.Client, path: str) -> None:
    """Return when the job has started. :raises RuntimeError: it has failed, or is too slow."""
    _wait(client, path, lambda job: "startTime" in job)


def wait_until_ended(client: httpx.Client, path: str) -> None:
    """Return when the job has succeeded. :raises RuntimeError: it has failed, or is too slow."""
    _wait(client, path, lambda job: job["state"] == "JOB_STATE_SUCCEEDED")


def _wait(client: httpx.Client, path: str, is_so: Any) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so(job := client.get(path).raise_for_status().json()):
        if job["state"] in _FAILED or time.monotonic() > deadline:
            raise RuntimeError(f"{path} is {job['state']}: {job.get('error')}")
        time.sleep(_POLL_SECONDS)
