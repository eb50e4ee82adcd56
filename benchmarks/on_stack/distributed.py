"""
Jobs of several replicas: how fast they start and end, and how well they share a machine.

- Start: from create to RUNNING of one master, four workers and two parameter servers; beside it a loop of
  seven ``docker run --detach`` on a network, until the last has returned. The two take turns.
- End: from the master's end to the job's, with workers that ignore SIGTERM, less the grace period.
- Room: twenty jobs of three replicas at once, room for six replicas; the share of the room that is used, from
  the first start to the last end. On the engine in memory, so that the service and not two cores decides.
"""

from __future__ import annotations

import subprocess
import time
import uuid

from benchmarks.report import Figure, median_figure
from benchmarks.support.bench_jobs import has_ended, new_job, submit, wait_until
from benchmarks.support.memory_service import IMAGE, memory_service
from local_stack.stack import LocalStack
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig
from training_service.settings import ServiceSettings

ROUNDS = 7
END_ROUNDS = 3
JOBS, REPLICAS, ROOM = 20, 3, 6
_RUN_SECONDS = 2.0
_SLEEP = ["python3", "-u", "-c", "import time; time.sleep(600)"]
_STUBBORN = [
    "python3",
    "-u",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)",
]
_SHORT = ["python3", "-u", "-c", "import time; time.sleep(2); print('master ends')"]


def measure(stack: LocalStack, image: str) -> list[Figure]:
    """
    Return the figures.

    :param image: in the stack's registry, by digest; it has ``python3``.
    """
    starts, loops, ends = [], [], []
    with TrainingClient(stack.settings.training_url, stack.settings.project) as client:
        _time_start(client, image)  # the first one pays for caches
        for _ in range(ROUNDS):
            loops.append(_time_loop(image))
            starts.append(_time_start(client, image))
        grace = ServiceSettings().stop_grace_seconds
        for _ in range(END_ROUNDS):
            ends.append(_time_end(client, image) - grace)
    ratios = [job / loop for job, loop in zip(starts, loops, strict=True)]
    return [
        median_figure("create to RUNNING, 7 replicas", starts),
        median_figure("7 x docker run --detach", loops),
        median_figure("ratio", ratios, unit="x", limit=1.5),
        median_figure("master's end to the job's, less grace", ends, limit=2.0),
        Figure(name="room left unused, 20 jobs", value=round(_unused_room(), 4), unit="of all", limit=0.1),
    ]


def _cluster(image: str, master: list[str], others: list[str], workers: int, servers: int) -> Job:
    return new_job(
        image,
        master,
        scale_tier="CUSTOM",
        master_type="n1-highcpu-8",
        worker_type="n1-highcpu-8",
        worker_count=workers,
        worker_config=ReplicaConfig(container_command=others),
        parameter_server_type="n1-highcpu-8",
        parameter_server_count=servers,
        parameter_server_config=ReplicaConfig(container_command=others),
    )


def seven_replicas(image: str) -> Job:
    """Return a job of a master, four workers and two parameter servers, all of which sleep."""
    return _cluster(image, _SLEEP, _SLEEP, workers=4, servers=2)


def _time_start(client: TrainingClient, image: str) -> float:
    """Return the seconds from before the request until a reader sees RUNNING."""
    job = seven_replicas(image)
    started = time.perf_counter()
    job_id = submit(client, job)
    wait_until(client, job_id, lambda job: job.start_time is not None)
    seconds = time.perf_counter() - started
    client.cancel_job(job_id)
    wait_until(client, job_id, has_ended)
    return seconds


def _time_loop(image: str) -> float:
    """Return the seconds that seven ``docker run --detach`` take, one after the other."""
    network = f"bench-{uuid.uuid4().hex[:12]}"
    names = [f"{network}-{number}" for number in range(7)]
    _docker("network", "create", network)
    try:
        started = time.perf_counter()
        for name in names:
            _docker("run", "--detach", "--init", "--name", name, "--network", network, image, *_SLEEP)
        return time.perf_counter() - started
    finally:
        _docker("rm", "--force", *names)
        _docker("network", "rm", network)


def _docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], check=True, capture_output=True)


def _time_end(client: TrainingClient, image: str) -> float:
    """Return the seconds from the master's last line until a reader sees that the job has ended."""
    job_id = submit(client, _cluster(image, _SHORT, _STUBBORN, workers=4, servers=2))
    wait_until(client, job_id, has_ended)
    seen = time.time()
    entries = client.list_log_entries(job_log_filter(job_id), page_size=1000).entries or []
    (last,) = [entry for entry in entries if entry.message == "master ends"]
    return seen - last.timestamp.timestamp()


def _unused_room() -> float:
    """Return the share of the room that nobody used while there was something to do."""
    with (
        memory_service(_RUN_SECONDS, side_by_side=ROOM) as service,
        TrainingClient(service.url, "bench") as client,
    ):
        ids = [submit(client, _cluster(IMAGE, [], [], workers=REPLICAS - 1, servers=0)) for _ in range(JOBS)]
        jobs = [wait_until(client, job_id, has_ended) for job_id in ids]
    starts = [job.start_time.timestamp() for job in jobs if job.start_time]
    ends = [job.end_time.timestamp() for job in jobs if job.end_time]
    used = sum((end - start) * REPLICAS for start, end in zip(starts, ends, strict=True))
    return 1 - used / (ROOM * (max(ends) - min(starts)))
