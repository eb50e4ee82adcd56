"""
The base image for GPU trainers builds, also on a base without CUDA.

A GPU that is missing is named.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from container_engines.base import ReplicaLaunch
from container_engines.docker.engine import DockerEngine
from container_engines.labels import SERVICE
from tests.support.own_images import build_image
from tests.support.run_id import current_run, exclusive
from training_api.errors import EngineError
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt

pytestmark = pytest.mark.docker

FOLDER = Path(__file__).parents[2] / "docker" / "gpu"


@pytest.fixture
def gpu_base(engine_client: docker.APIClient, base_image: str) -> Iterator[str]:
    """The GPU base on top of this machine's base image."""
    tag = current_run().image(f"gpu-base:{uuid.uuid4().hex[:12]}")
    build_image(engine_client, tag, path=str(FOLDER), buildargs={"BASE_IMAGE": base_image})
    yield tag
    engine_client.remove_image(tag, force=True)


@pytest.mark.extended
def test_gpu_base_has_what_a_trainer_needs(gpu_base: str, engine_client: docker.APIClient) -> None:
    check = "curl --version && wget --version && pip --version && python -c 'import ssl, venv'"
    container = engine_client.create_container(gpu_base, ["sh", "-ec", check], labels=current_run().labels)[
        "Id"
    ]
    try:
        engine_client.start(container)
        assert engine_client.wait(container)["StatusCode"] == 0, engine_client.logs(container).decode()
        environment = engine_client.inspect_container(container)["Config"]["Env"]
    finally:
        engine_client.remove_container(container, force=True, v=True)
    assert "NVIDIA_VISIBLE_DEVICES=all" in environment


def test_engine_without_a_gpu_driver_says_that_it_cannot_give_one(pushed_image: ImageRef) -> None:
    """The engine is told that it has a GPU, so that it is asked for one for real."""
    service_id = f"test-{uuid.uuid4().hex}"
    current_run().own_label(SERVICE, service_id)
    engine = DockerEngine(service_id, gpus=1)
    launch = ReplicaLaunch(
        job_uid=uuid.uuid4().hex[:12],
        job_id="job",
        project="project",
        replica=ReplicaId(role=ReplicaRole.MASTER),
        attempt=Attempt(),
        image_id=engine.pull_image(pushed_image).image_id,
        host_name="cmle-training-master-0123456789-0",
        command=("true",),
        args=(),
        environment={},
        resources=Resources(cpus=1, memory_bytes=64 * 1024**2, gpus=1),
        pids_limit=64,
    )
    # All services of an engine share its GPUs.
    with exclusive("gpu"):
        try:
            with pytest.raises(EngineError, match="could not select device driver"):
                engine.start_replica(launch)
            # The first container was made and carries the only GPU: there is none for a second.
            second = replace(launch, replica=ReplicaId(role=ReplicaRole.WORKER))
            with pytest.raises(EngineError, match="1 GPUs are needed and 0 of 1 are free"):
                engine.start_replica(second)
        finally:
            engine.remove_job(launch.job_uid)
            engine.close()
