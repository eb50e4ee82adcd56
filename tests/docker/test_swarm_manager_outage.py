"""What replicas write while the swarm's manager is away is in their log when it is back."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.support.bed.job_watch import messages, until_state
from tests.support.bed.swarm import Swarm, drained
from tests.support.bed.swarm_service import Service
from tests.support.speed import slowness
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.swarm, pytest.mark.timeout(600), pytest.mark.extended]

PROJECT = "demo-project"
#: How long the manager is away; the swarm's other machines then look for it.
OUTAGE_SECONDS = 8.0
LINES = 400
COUNT = f"""
import time
for number in range({LINES}):
    print("line", number, flush=True)
    time.sleep(0.1)
"""


@pytest.fixture
def training(swarm: Swarm, tmp_path: Path) -> Iterator[TrainingClient]:
    service = Service(tmp_path, swarm.manager.docker_host)
    service.start()
    with TrainingClient(service.url, PROJECT) as client:
        yield client
    service.end(signal.SIGTERM)


@pytest.mark.proves("logs: what is written while the manager is away", on="swarm")
def test_no_line_is_lost_while_the_manager_is_away(
    training: TrainingClient,
    swarm: Swarm,
    engines: dict[str, docker.APIClient],
    swarm_image: ImageRef,
    job_id: str,
) -> None:
    master = ReplicaConfig(image_uri=str(swarm_image), container_command=["python3", "-u", "-c", COUNT])
    with drained(engines[swarm.manager.name], swarm.manager.name):
        training.create_job(Job(job_id=job_id, training_input=TrainingInput(master_config=master)))
        until_state(training, job_id, JobState.RUNNING)
        wait_until(lambda: any("line 20" in line for line in messages(training, job_id)), "lines are read")

        swarm.manager.kill_engine()
        time.sleep(OUTAGE_SECONDS * slowness())
        swarm.manager.start_engine()
        swarm.wait_for_ready()
        until_state(training, job_id, JobState.SUCCEEDED)

    lines = [line for line in messages(training, job_id) if line.startswith("master-replica-0: line")]
    assert lines == [f"master-replica-0: line {number}" for number in range(LINES)]
