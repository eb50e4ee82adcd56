"""
How long is it from a submit to RUNNING, by either dialect, with the image on the engine?

It is compared with ``docker run`` of the same image to its first line of output: once on the engine's own
bridge, once in a network as the job's is, in which names are looked up. For such a network Engine 20.10
starts a program in each container [moby: libnetwork, setup-resolver]. All run in turns, each once the engine
has removed what the one before has left.
"""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx

from benchmarks.report import Figure, median_figure
from benchmarks.support.bench_jobs import has_ended, new_job, submit, wait_until
from benchmarks.support.vertex_jobs import collection_of, custom_job, wait_until_ended, wait_until_started
from container_engines.confinement import IS_OPEN_INSIDE
from container_engines.labels import JOB_UID
from local_stack.stack import LocalStack
from training_api.clients.training import TrainingClient

ROUNDS = 21
#: The engine is still busy for a moment after a removed network has left its list. Jobs of either dialect,
#: and ``docker run``, took 0.1 s longer right after that.
_SETTLING_SECONDS = 0.5
#: How long the removal of a job may take.
_MAX_REMOVAL_SECONDS = 60.0
#: It stays for a moment: the engine says nothing about a container while it puts away what has ended.
_PROGRAM = ["python3", "-u", "-c", "import time; print(1); time.sleep(0.5)"]


def measure(stack: LocalStack, image: str) -> list[Figure]:
    """
    Return the medians and their ratio.

    :param image: in the stack's registry, by digest; it has ``python3``.
    """
    jobs, custom_jobs, raw, alike = [], [], [], []
    settings = stack.settings
    with (
        TrainingClient(settings.training_url, settings.project) as client,
        httpx.Client(base_url=settings.training_url, trust_env=False, timeout=60) as api,
        _network() as network,
    ):
        _time_job(client, image)  # the first one of each pays for caches
        _time_custom_job(api, settings.project, image)
        _time_docker_run(image)
        for _ in range(ROUNDS):
            raw.append(_time_docker_run(image))
            alike.append(_time_docker_run(image, f"--network={network}"))
            jobs.append(_time_job(client, image))
            custom_jobs.append(_time_custom_job(api, settings.project, image))
    return [
        median_figure("submit to RUNNING", jobs, limit=1.0),
        median_figure("docker run to its first line", raw),
        median_figure("docker run in a network with names", alike),
        median_figure("submit to RUNNING, Vertex AI", custom_jobs, limit=1.0),
        median_figure("ratio", _ratios(jobs, raw), unit="x", limit=1.5),
        median_figure("ratio, in such a network", _ratios(jobs, alike), unit="x", limit=1.5),
        median_figure("ratio, Vertex AI", _ratios(custom_jobs, raw), unit="x", limit=1.5),
        median_figure("ratio, Vertex AI, such a network", _ratios(custom_jobs, alike), unit="x", limit=1.5),
    ]


def _ratios(jobs: Sequence[float], runs: Sequence[float]) -> list[float]:
    return [job / run for job, run in zip(jobs, runs, strict=True)]


def _time_job(client: TrainingClient, image: str) -> float:
    """Return the seconds from before the request until a reader sees RUNNING (or later)."""
    job = new_job(image, _PROGRAM)
    started = time.perf_counter()
    job_id = submit(client, job)
    wait_until(client, job_id, lambda job: job.start_time is not None)
    seconds = time.perf_counter() - started
    wait_until(client, job_id, has_ended)
    _wait_for_nothing_left()
    return seconds


def _time_custom_job(api: httpx.Client, project: str, image: str) -> float:
    """Return the same for a job of Vertex AI."""
    collection = collection_of(project)
    started = time.perf_counter()
    made = api.post(collection, json=custom_job(image, _PROGRAM)).raise_for_status().json()
    path = f"{collection}/{made['name'].rpartition('/')[2]}"
    wait_until_started(api, path)
    seconds = time.perf_counter() - started
    wait_until_ended(api, path)
    _wait_for_nothing_left()
    return seconds


def _wait_for_nothing_left() -> None:
    """
    Return once the engine has neither containers nor networks of jobs.

    :raises RuntimeError: some stay, such as those of another service that has ended.
    """
    of_jobs = f"--filter=label={JOB_UID}"
    deadline = time.monotonic() + _MAX_REMOVAL_SECONDS
    for listing in (["ps", "--all"], ["network", "ls"]):
        command = ["docker", *listing, "--quiet", of_jobs]
        while left := subprocess.run(command, check=True, capture_output=True, text=True).stdout.split():
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the engine still has {', '.join(left)} of jobs; remove them, and try again"
                )
            time.sleep(0.05)
    time.sleep(_SETTLING_SECONDS)


@contextmanager
def _network() -> Iterator[str]:
    """Yield the name of a network that is closed inside, as that of jobs of one replica."""
    name = f"bench-{uuid.uuid4().hex[:12]}"
    options = ["--opt", f"{IS_OPEN_INSIDE}=false"]
    subprocess.run(["docker", "network", "create", *options, name], check=True, stdout=subprocess.DEVNULL)
    try:
        yield name
    finally:
        subprocess.run(["docker", "network", "rm", name], check=True, stdout=subprocess.DEVNULL)


def _time_docker_run(image: str, *options: str) -> float:
    """Return the seconds from before the command until its first line is read."""
    command = ["docker", "run", "--rm", *options, image, *_PROGRAM]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.perf_counter() - started
    if process.returncode != 0 or line != b"1\n":
        raise RuntimeError(f"docker run {image} answered {line!r} and ended with {process.returncode}")
    return seconds
