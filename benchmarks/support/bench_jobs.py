"""Jobs that benchmarks submit, and waiting for them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.states import JobState

_PATIENCE_SECONDS = 600.0


def new_job(image: str, command: Sequence[str] = (), arguments: Sequence[str] = (), **training: Any) -> Job:
    """Return a job with a new id whose master runs ``command``; ``training`` are more fields."""
    master = ReplicaConfig(
        image_uri=image, container_command=list(command) or None, container_args=list(arguments) or None
    )
    return Job(
        job_id=f"bench_{uuid.uuid4().hex[:12]}",
        training_input=TrainingInput(region="us-central1", master_config=master, **training),
    )


def submit(client: TrainingClient, job: Job) -> str:
    """Create ``job`` and return its id."""
    return client.create_job(job).job_id or ""


def wait_until(
    client: TrainingClient, job_id: str, is_so: Callable[[Job], object], poll_seconds: float = 0.01
) -> Job:
    """
    Return the job once ``is_so`` says yes.

    :raises RuntimeError: it says no for ten minutes, or the job has failed.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_so(job := client.get_job(job_id)):
        if job.state is JobState.FAILED or time.monotonic() > deadline:
            raise RuntimeError(f"{job_id} is {job.state}: {job.error_message}")
        time.sleep(poll_seconds)
    return job


def has_ended(job: Job) -> bool:
    """Whether the job will not change any more."""
    return job.state is not None and job.state.is_terminal


def wait_for_success(client: TrainingClient, job_id: str, poll_seconds: float = 0.01) -> Job:
    """Return the job once it has ended. :raises RuntimeError: not as SUCCEEDED."""
    job = wait_until(client, job_id, has_ended, poll_seconds)
    if job.state is not JobState.SUCCEEDED:
        raise RuntimeError(f"{job_id} is {job.state}: {job.error_message}")
    return job
