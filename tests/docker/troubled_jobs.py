"""Jobs whose service, engine or network fails: submitted, awaited, and their logs checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import docker

from container_engines.labels import JOB_UID, SERVICE
from tests.support.bed.service_process import ServiceProcess
from tests.support.dead_runs import remove_each
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import TrainingError
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

LINES = 20
PROGRAM = f"""
import time
for number in range({LINES}):
    print(number, flush=True)
    time.sleep(0.1)
"""


@contextmanager
def run_service(
    folder: Path, docker_host: str, database_url: str = ""
) -> Iterator[tuple[ServiceProcess, TrainingClient]]:
    service = ServiceProcess(
        folder,
        database_url,
        TRAINING_DOCKER_HOST=docker_host,
        TRAINING_OVERCOMMIT="40",
        TRAINING_STOP_GRACE_SECONDS="2",
        TRAINING_PULL_SILENCE_SECONDS="5",
    )
    with ExitStack() as ends:
        ends.callback(remove_what_is_left, docker_host, service)
        ends.callback(service.kill)
        service.start()
        yield service, ends.enter_context(service.client())


def remove_what_is_left(docker_host: str, service: ServiceProcess) -> None:
    """After a test that has failed: an engine has few networks."""
    own = {"label": f"{SERVICE}={service.service_id}"}
    with closing(docker.APIClient(base_url=docker_host, timeout=scaled(60))) as engine:
        containers = [container["Id"] for container in engine.containers(all=True, filters=own)]
        remove_each(partial(engine.remove_container, force=True, v=True), containers)
        remove_each(engine.remove_network, [network["Id"] for network in engine.networks(filters=own)])


def submit(client: TrainingClient, image: ImageRef, names: Sequence[str], program: str = PROGRAM) -> None:
    """Create a job of each name; ask a service that does not answer again, as operators do."""
    config = ReplicaConfig(image_uri=str(image), container_command=["python3", "-u", "-c", program])
    for name in names:
        job = Job(job_id=name, training_input=TrainingInput(region="us-central1", master_config=config))
        wait_until(lambda job=job: is_created(client, job), f"{name} is created", ignoring=TrainingError)


def is_created(client: TrainingClient, job: Job) -> bool:
    """Create the job unless it is there: an answer may be lost after the job was stored."""
    if job.job_id not in {known.job_id for known in client.list_jobs(f"jobId={job.job_id}").jobs or []}:
        client.create_job(job)
    return True


def wait_for_ends(client: TrainingClient, names: Sequence[str]) -> None:
    """Return when all have ended; fails unless all have succeeded."""
    ended: dict[str, Job] = {}

    def all_have() -> bool:
        for name in names:
            if name not in ended and (job := client.get_job(name)).state and job.state.is_terminal:
                ended[name] = job
        assert len(ended) == len(names), f"{len(ended)} of {len(names)} have ended"
        return True

    wait_until(
        all_have,
        "all jobs have ended",
        seconds=240,
        poll_seconds=0.5,
        ignoring=(TrainingError, AssertionError),
    )
    assert {
        name: job.error_message for name, job in ended.items() if job.state is not JobState.SUCCEEDED
    } == {}


def check_log(
    client: TrainingClient, name: str, engine_kills: Sequence[tuple[datetime, datetime]] = ()
) -> None:
    """
    Every run of the program is there without a gap or a double, and the last one is whole.

    An engine that is killed loses the line that it has just read, and what its containers write until
    the next one starts (both seen on 20.10; the program ends with status 0 all the same). So lines may be
    missing where the engine was killed between the lines around them, before the first or after the last one.

    :param engine_kills: of each kill, when it was begun and when the engine was dead.
    """
    entries = client.list_log_entries(job_log_filter(name), page_size=1000).entries or []
    lines = [(int(entry.message), entry.timestamp) for entry in entries if entry.message.isdigit()]
    found = f"{name}: {[number for number, _ in lines]}"

    def was_killed_between(begin: datetime, end: datetime) -> bool:
        return any(begin <= dead and begun <= end for begun, dead in engine_kills)

    job = client.get_job(name)
    assert job.start_time is not None
    assert job.end_time is not None
    first = lines[0][1] if lines else job.end_time
    assert (lines and lines[0][0] == 0) or was_killed_between(job.start_time, first), found
    for (number, at), (following, then) in pairwise(lines):
        is_whole = following in (number + 1, 0)
        assert is_whole or (was_killed_between(at, then) and (following > number or following == 1)), found
    last, at = lines[-1] if lines else (-1, job.start_time)
    assert last == LINES - 1 or was_killed_between(at, job.end_time), found


def check_nothing_is_left(engine: docker.APIClient, service: ServiceProcess) -> None:
    """Wait until the engine has neither containers nor networks of the service's jobs."""
    own = {"label": [f"{SERVICE}={service.service_id}", JOB_UID]}
    wait_until(
        lambda: not engine.containers(all=True, filters=own) and not engine.networks(filters=own),
        "no container and no network is left",
        seconds=120,
    )
