"""A machine dies under twelve jobs: each ends right, soon, and keeps its reports."""

from __future__ import annotations

import signal
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing

import docker
import pytest

from tests.support.bed.job_watch import until_state
from tests.support.bed.swarm import Swarm
from tests.support.bed.swarm_service import Service, service_with_agents
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]

PROJECT = "demo-project"
#: Jobs of a master alone, and jobs of a master and a worker.
ALONE, PAIRS = 8, 4
#: How long a lost replica may take until it runs again. On an idle machine it took 17 to 23 s: 5 s until the
#: swarm gives the machine up; most of the rest until the others have started a container in its network.
AGAIN_SECONDS = 60.0
#: Reports until it gets the signal, then ten times more.
REPORTS = """
import itertools, signal, time, hypertune
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(True))
reporter = hypertune.HyperTune()
left = 10
for step in itertools.count(1):
    reporter.report_hyperparameter_tuning_metric("accuracy", 1 - 1 / step, step)
    left -= bool(told)
    if not left:
        break
    time.sleep(0.1)
"""
WAITS = "import time; time.sleep(3600)"
_STEPS = """
SELECT jobs.job_id, source, step FROM measurements JOIN jobs ON jobs.uid = measurements.job_uid
ORDER BY jobs.job_id, source, measurements.sequence
"""
#: A job, and the host name of one of its replicas.
Replica = tuple[str, str]
#: A job, and which run of its master.
Run = tuple[str, str]


@pytest.fixture(scope="module")
def service(
    swarm: Swarm, agent_image: ImageRef, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    # Two machines have room for all replicas of all jobs.
    room = {"TRAINING_OVERCOMMIT": "16"}
    with service_with_agents(swarm, agent_image, tmp_path_factory.mktemp("lost-machine"), room) as service:
        yield service


def submit(training: TrainingClient, image: ImageRef, job_id: str, workers: int) -> str:
    def running(program: str) -> ReplicaConfig:
        return ReplicaConfig(image_uri=str(image), container_command=["python3", "-c", program])

    training_input = TrainingInput(
        scale_tier="CUSTOM",
        master_type="n1-standard-4",
        master_config=running(REPORTS),
        worker_type="n1-standard-4" if workers else None,
        worker_count=workers or None,
        worker_config=running(WAITS) if workers else None,
    )
    training.create_job(Job(job_id=job_id, training_input=training_input))
    return job_id


def containers_of(engine: docker.APIClient, jobs: list[str]) -> dict[Replica, str]:
    """Return the ids of the jobs' running containers on one machine."""
    found = {}
    for item in engine.containers(filters={"label": "container-training.job"}):
        job_id = item["Labels"]["container-training.job"]
        if job_id in jobs:
            found[job_id, engine.inspect_container(item["Id"])["Config"]["Hostname"]] = item["Id"]
    return found


def stored_steps(service: Service) -> dict[Run, list[int]]:
    """Return the steps of all stored reports of each run, in the order of their places."""
    steps = defaultdict(list)
    with closing(sqlite3.connect(f"file:{service.database}?mode=ro", uri=True)) as database:
        for job_id, source, step in database.execute(_STEPS):
            steps[job_id, source].append(step)
    return steps


def running_replicas(engines: Mapping[str, docker.APIClient], jobs: list[str]) -> set[Replica]:
    return {replica for engine in engines.values() for replica in containers_of(engine, jobs)}


@pytest.mark.proves("lost replicas are started again", on="swarm with agents")
def test_a_machine_that_dies_under_twelve_jobs_costs_no_job_and_no_stored_report(
    swarm: Swarm,
    service: Service,
    agent_image: ImageRef,
    engines: dict[str, docker.APIClient],
    job_id: str,
) -> None:
    with TrainingClient(service.url, PROJECT) as training:
        jobs = [
            submit(training, agent_image, f"{job_id}_{number}", workers=1 if number < PAIRS else 0)
            for number in range(ALONE + PAIRS)
        ]
        wait_until(
            lambda: len(running_replicas(engines, jobs)) == ALONE + 2 * PAIRS,
            "all replicas run",
            seconds=120,
        )
        wait_until(
            lambda: all(len(stored_steps(service)[job, "0.0"]) >= 5 for job in jobs),
            "each job has reports in the store",
            seconds=120,
        )
        placed = {node.name: containers_of(engines[node.name], jobs) for node in swarm.nodes[1:]}
        victim = max(swarm.nodes[1:], key=lambda node: len(placed[node.name]))
        survivors = {name: engine for name, engine in engines.items() if name != victim.name}
        lost = set(placed[victim.name])
        lost_masters = {job for job, host in lost if "master" in host}
        assert lost_masters

        stored = stored_steps(service)
        victim.power_off()
        try:
            wait_until(
                lambda: lost <= running_replicas(survivors, jobs),
                "all lost replicas run again",
                seconds=AGAIN_SECONDS,
            )
            # Which also says that their programs take the signal.
            wait_until(
                lambda: lost_masters <= {job for job, source in stored_steps(service) if source != "0.0"},
                "those that run again have reports in the store",
                seconds=60,
            )
            for engine in survivors.values():
                for (_, host), container in containers_of(engine, jobs).items():
                    if "master" in host:
                        engine.kill(container, signal.SIGUSR1)
            for job in jobs:
                until_state(training, job, JobState.SUCCEEDED)
        finally:
            victim.start()
            swarm.wait_for_ready()

    after = stored_steps(service)
    for run, steps in after.items():
        assert steps == list(range(1, len(steps) + 1)), f"{run} has a gap"
        assert len(steps) >= len(stored.get(run, [])), f"{run} had more reports before the machine died"
    # All ended by themselves, ten reports after they were told.
    ends = {job: max(source for other, source in after if other == job) for job in jobs}
    assert all(len(after[job, source]) >= 10 for job, source in ends.items())
