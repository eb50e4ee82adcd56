"""A job of a swarm whose replicas write more than they may fails; others go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bed.cluster_jobs import runs, submit
from tests.support.bed.job_watch import until_end
from tests.support.bed.swarm import Swarm
from tests.support.bed.swarm_service import service_with_agents
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import ReplicaConfig
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.swarm, pytest.mark.timeout(600), pytest.mark.extended]

PROJECT = "demo-project"
MIB = 2**20
LIMIT = 64 * MIB
#: Blocks are taken at once, without the time that it takes to write them.
TAKES = """
import os, sys, time
os.posix_fallocate(os.open("/tmp/big", os.O_CREAT | os.O_WRONLY), 0, int(sys.argv[1]))
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.proves("limits of what a container writes to its disk", on="swarm with agents")
def test_a_replica_that_writes_too_much_is_stopped_with_the_reason(
    swarm: Swarm, agent_image: ImageRef, tmp_path: Path, job_id: str
) -> None:
    def takes(size: int, seconds: float) -> ReplicaConfig:
        return runs(agent_image, TAKES, str(size), str(seconds))

    variables = {"TRAINING_DISK_LIMIT_BYTES": str(LIMIT), "TRAINING_OVERCOMMIT": "40"}
    with (
        service_with_agents(swarm, agent_image, tmp_path, variables) as service,
        TrainingClient(service.url, PROJECT) as training,
    ):
        submit(training, f"{job_id}_greedy", takes(1, 600), takes(2 * LIMIT, 600), workers=2)
        submit(training, f"{job_id}_polite", takes(1, 40), takes(LIMIT // 2, 40), workers=2)
        greedy, polite = (until_end(training, f"{job_id}_{name}") for name in ("greedy", "polite"))

    assert greedy.state is JobState.FAILED
    said = greedy.error_message or ""
    assert "The replica worker" in said
    assert "to its container's root; allowed are 67,108,864 bytes" in said
    assert polite.state is JobState.SUCCEEDED, polite.error_message
