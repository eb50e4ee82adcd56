"""
Secrets of real jobs on the stack.

Their containers have them; the state folder, the logs, the answers and other containers do not.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from local_stack.stack import LocalStack
from tests.support.bed.job_watch import messages, until_end, until_state
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.errors import AccessDenied, ServiceError
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = pytest.mark.docker

PROJECT = "demo-project"
#: It says what it has, without saying it.
TELLS = """
import hashlib, os, time
has = [open("/run/secrets/test-ca", "rb").read(), os.environ["TEST_API_KEY"].encode()]
print("HAS", *(hashlib.sha256(each).hexdigest() for each in has), flush=True)
time.sleep(300)
"""
LABELS = {"secret-test-ca": "", "secret-test-key": "test_api_key"}


@pytest.fixture
def values(stack: LocalStack) -> Iterator[list[str]]:
    """The values of two secrets that the service's store has."""
    values = [secrets.token_hex(24) for _ in range(2)]
    names = ["test-ca", "test-key"]
    environment = os.environ | {"TRAINING_SECRETS_DIR": str(stack.settings.secrets_dir)}
    command = [sys.executable, "-m", "training_service", "secret"]
    for name, value in zip(names, values, strict=True):
        subprocess.run(
            [*command, "set", name, "--project", PROJECT], env=environment, input=value.encode(), check=True
        )
    yield values
    for name in names:
        subprocess.run([*command, "rm", name, "--project", PROJECT], env=environment, check=True)


@pytest.fixture
def stranger(stack: LocalStack) -> Iterator[TrainingClient]:
    """A client without a token."""
    with TrainingClient(stack.settings.training_url, PROJECT) as client:
        yield client


@pytest.fixture
def make_job(pushed_image: ImageRef) -> Callable[..., Job]:
    """Return a function that returns a job of a master and a worker."""

    def make_job(job_id: str, program: str, labels: dict[str, str]) -> Job:
        config = ReplicaConfig(
            image_uri=str(pushed_image), container_command=["python3", "-u", "-c", program]
        )
        training = TrainingInput(
            region="us-central1",
            scale_tier="CUSTOM",
            master_type="n1-standard-4",
            master_config=config,
            worker_type="n1-standard-4",
            worker_config=config,
            worker_count=1,
        )
        return Job(job_id=job_id, labels=labels, training_input=training)

    return make_job


@pytest.mark.proves("secrets", on="one machine")
def test_all_replicas_have_the_values_and_nothing_else_has(
    stack: LocalStack,
    training: TrainingClient,
    make_job: Callable[..., Job],
    values: list[str],
    job_id: str,
    engine_client: docker.APIClient,
) -> None:
    jobs = (job_id, f"{job_id}_other")
    digests = " ".join(hashlib.sha256(value.encode()).hexdigest() for value in values)
    training.create_job(make_job(jobs[0], TELLS, LABELS))
    training.create_job(make_job(jobs[1], "import time; time.sleep(300)", {}))
    for each in jobs:
        until_state(training, each, JobState.RUNNING)

    def said_by_all() -> list[str]:
        said = messages(training, job_id)
        for replica in ("master-replica-0", "worker-replica-0"):
            assert f"{replica}: HAS {digests}" in said
        return said

    said = wait_until(said_by_all, "both replicas say what they have", seconds=60, ignoring=AssertionError)
    own, other = (containers(engine_client, each) for each in jobs)
    for each in jobs:
        training.cancel_job(each)
    ended = [until_end(training, each) for each in jobs]

    # A variable stands in the description of its own container, as docs/access.md says; a file does not.
    assert [value in own for value in values] == [False, True]
    seen = [other, json.dumps([job.to_wire() for job in ended]), "".join(said)]
    assert not [value for value in values for text in seen if value in text]
    assert holders(stack.settings.state_dir, values) == {
        stack.settings.secrets_dir / PROJECT / "test-ca",
        stack.settings.secrets_dir / PROJECT / "test-key",
    }


def containers(engine_client: docker.APIClient, job_id: str) -> str:
    """Return what the engine says of a job's containers."""
    found = engine_client.containers(all=True, filters={"label": f"container-training.job={job_id}"})
    assert found
    return json.dumps([engine_client.inspect_container(item["Id"]) for item in found])


def holders(folder: Path, values: list[str]) -> set[Path]:
    """Return the files with any of ``values``: databases, logs and objects among them."""
    found = set()
    for parent, _, names in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if path.is_file() and not path.is_symlink():
                with suppress(FileNotFoundError):  # what has ended is removed meanwhile
                    content = path.read_bytes()
                    found |= {path for value in values if value.encode() in content}
    return found


def test_who_has_no_token_names_no_secret(
    stranger: TrainingClient, make_job: Callable[..., Job], values: list[str], job_id: str
) -> None:
    with pytest.raises(AccessDenied, match=r"secretmanager\.versions\.access"):
        stranger.create_job(make_job(job_id, TELLS, LABELS))
    with pytest.raises(AccessDenied):
        stranger.create_job(make_job(job_id, TELLS, {"secret-absent": ""}))


def test_a_missing_secret_is_refused_by_name(
    training: TrainingClient, make_job: Callable[..., Job], job_id: str
) -> None:
    with pytest.raises(ServiceError, match="has no secret 'test-absent'"):
        training.create_job(make_job(job_id, TELLS, {"secret-test-absent": ""}))
