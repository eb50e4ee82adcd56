"""
``gcloud ai custom-jobs create`` with a local folder, of which it makes an image.

It takes no other registry's names than gcr.io and Artifact Registry's. So the engine that it builds with
takes a registry of this test for Artifact Registry, and the service finds the image there by an alias.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from local_stack.environment import client_environment
from local_stack.stack import LocalStack
from tests.conformance.gcloud import run_gcloud
from tests.support.bed.job_watch import messages
from tests.support.bed.own_engine import run_own_engine
from tests.support.bed.registry import registry_command, registry_program, run_registry
from tests.support.bed.vertex import aliases, ended
from tests.support.ports import reserve_port
from training_api.clients.training import TrainingClient

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.needs_root, pytest.mark.timeout(300)]

HOST, REPOSITORY = "us-docker.pkg.dev", "demo-project/repo/trainer"


@pytest.fixture
def builder(
    stack: LocalStack, engine_client: docker.APIClient, base_image: str, tmp_path: Path
) -> Iterator[str]:
    """
    An engine that has the base image, and a registry at Artifact Registry's name.

    The service runs what is pushed there.
    """
    program, images = registry_program(stack), tmp_path / "images"
    images.mkdir()
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {HOST}\n")
    registry = " ".join(registry_command(program, images, "127.0.0.1:80"))
    before = f"ip link set lo up; mount --bind {hosts} /etc/hosts; {registry} &"
    address = f"127.0.0.1:{reserve_port()}"
    with (
        run_own_engine(f"--insecure-registry={HOST}", megabytes=600, driver="overlay2", before=before) as url,
        run_registry(program, images, address),
        aliases(stack, {f"{HOST}/{REPOSITORY}": f"{address}/{REPOSITORY}:1"}),
    ):
        client = docker.APIClient(base_url=url)
        client.load_image(engine_client.get_image(base_image))
        client.close()
        yield url
    engine_client.remove_image(
        f"{address}/{REPOSITORY}:1", force=True
    )  # the job's container may still be there


def test_a_local_folder_becomes_an_image_that_the_job_runs(
    builder: str,
    stack: LocalStack,
    training: TrainingClient,
    locations: Any,
    base_image: str,
    tmp_path: Path,
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "task.py").write_text("import sys; print('packed', sys.argv[1:])\n")
    pool = {
        "machine-type": "n1-standard-4",
        "replica-count": 1,
        "executor-image-uri": base_image,
        "local-package-path": package,
        "script": "task.py",
        "output-image-uri": f"{HOST}/{REPOSITORY}:1",
    }

    created = run_gcloud(
        *("ai", "custom-jobs", "create", "--region=us-central1", "--display-name=a folder", "--format=json"),
        f"--worker-pool-spec={','.join(f'{name}={value}' for name, value in pool.items())}",
        "--args=--epochs,3",
        environment=client_environment(stack.settings, base_image=base_image) | {"DOCKER_HOST": builder},
        config=tmp_path / "gcloud",
    )

    assert created.returncode == 0, created.stderr
    assert f"Custom container image [{HOST}/{REPOSITORY}:1] is created" in created.stderr
    name = json.loads(created.stdout[created.stdout.index("\n{") :])["name"]  # after the engine's lines
    job = ended(locations.customJobs(), name)
    assert job["state"] == "JOB_STATE_SUCCEEDED", job
    assert "workerpool0-0: packed ['--epochs', '3']" in messages(training, name.rpartition("/")[2])
