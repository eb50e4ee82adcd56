"""
How long is it from a submit to RUNNING, with the image on the engine?

Beside it: ``docker run`` of the same image to its first line of output. The two take turns.
"""

from __future__ import annotations

import subprocess
import time
import uuid

from benchmarks.report import Figure, median_figure
from local_stack.stack import LocalStack
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.states import JobState

ROUNDS = 21
_PROGRAM = ["python3", "-u", "-c", "print(1)"]
_POLL_SECONDS = 0.01
_PATIENCE_SECONDS = 60.0


def measure(stack: LocalStack, image: str) -> list[Figure]:
    """
    Return the medians and their ratio.

    :param image: in the stack's registry, by digest; it has ``python3``.
    """
    jobs, raw = [], []
    with TrainingClient(stack.settings.training_url, stack.settings.project) as client:
        _time_job(client, image)  # the first one of each pays for caches
        _time_docker_run(image)
        for _ in range(ROUNDS):
            raw.append(_time_docker_run(image))
            jobs.append(_time_job(client, image))
    ratios = [job / run for job, run in zip(jobs, raw, strict=True)]
    return [
        median_figure("submit to RUNNING", jobs, limit=1.0),
        median_figure("docker run to its first line", raw),
        median_figure("ratio", ratios, unit="x", limit=3.0),
    ]


def _time_job(client: TrainingClient, image: str) -> float:
    """Return the seconds from before the request until a reader sees RUNNING (or later)."""
    job_id = f"bench_{uuid.uuid4().hex[:12]}"
    config = ReplicaConfig(image_uri=image, container_command=_PROGRAM)
    started = time.perf_counter()
    client.create_job(
        Job(job_id=job_id, training_input=TrainingInput(region="us-central1", master_config=config))
    )
    while True:
        job = client.get_job(job_id)
        if job.start_time is not None:
            seconds = time.perf_counter() - started
            break
        if job.state is JobState.FAILED or time.perf_counter() - started > _PATIENCE_SECONDS:
            raise RuntimeError(f"{job_id} does not run: {job.state} {job.error_message}")
        time.sleep(_POLL_SECONDS)
    while not (state := client.get_job(job_id).state) or not state.is_terminal:
        time.sleep(_POLL_SECONDS)
    return seconds


def _time_docker_run(image: str) -> float:
    """Return the seconds from before the command until its first line is read."""
    started = time.perf_counter()
    with subprocess.Popen(["docker", "run", "--rm", image, *_PROGRAM], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - started
    if process.returncode != 0 or line != b"1\n":
        raise RuntimeError(f"docker run {image} answered {line!r} and ended with {process.returncode}")
    return seconds
