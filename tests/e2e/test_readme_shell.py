"""The shell blocks of the documentation, with gcloud and docker, against a test's stack."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from local_stack.stack import LocalStack
from tests.support.docs_examples import README, ROOT, examples
from tests.support.speed import scaled
from training_api.clients.training import TrainingClient
from training_api.states import JobState

# A first build installs the trainer's requirements.
pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(900)]

BLOCK_TIMEOUT_SECONDS = 600
TRAINERS = ROOT / "docs" / "trainers.md"

Run = Callable[[str], str]


@pytest.fixture(scope="session", autouse=True)
def clients() -> None:
    """What a reader of the documentation has on his machine; in CI it must be there."""
    missing = [name for name in ("bash", "make", "docker", "gcloud") if shutil.which(name) is None]
    if "make" not in missing:
        # `make env` must have nothing to install: that would change the environment that runs this test.
        question = ["make", "--question", ".venv/.installed"]
        if subprocess.run(question, cwd=ROOT, check=False, capture_output=True).returncode != 0:
            missing.append("what `make setup` installs")
    if missing:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say(f"not on this machine: {', '.join(missing)}")


@pytest.fixture
def run(stack: LocalStack, engine_client: docker.APIClient, tmp_path: Path) -> Iterator[Run]:
    """
    Run a script in the repository, as a person would; return its output.

    Its images are removed afterwards.
    """
    settings = stack.settings
    environment = os.environ | {
        "LOCAL_STACK_STATE_DIR": str(settings.state_dir),
        "LOCAL_STACK_PROJECT": settings.project,
        "LOCAL_STACK_BUCKET": settings.bucket,
        "LOCAL_STACK_REGISTRY_PORT": str(settings.registry_port),
        "LOCAL_STACK_OBJECT_STORE_PORT": str(settings.object_store_port),
        "LOCAL_STACK_TRAINING_PORT": str(settings.training_port),
        "LOCAL_STACK_GRPC_PORT": str(settings.grpc_port),
        "LOCAL_STACK_VERTEX_PROXY_PORT": str(settings.vertex_proxy_port),
        "LOCAL_STACK_BASE_IMAGE": str(settings.base_image),
    }

    def run(code: str) -> str:
        script = tmp_path / "block.sh"
        script.write_text(code, encoding="utf-8")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", str(script)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=scaled(BLOCK_TIMEOUT_SECONDS),
            check=False,
        )
        print(done.stdout)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    yield run
    for name in ("digits", "mine"):
        reference = f"{settings.image_prefix}/{name}:1"
        if engine_client.images(reference):
            engine_client.remove_image(reference, force=True)


def test_the_readmes_shell_block_builds_pushes_trains_and_shows_the_log(
    run: Run, training: TrainingClient
) -> None:
    (block,) = examples("shell", README)
    job_id = f"digits_by_hand_{uuid.uuid4().hex[:8]}"

    printed = run(block.code.replace("digits_by_hand", job_id))

    job = training.get_job(job_id)
    assert job.state is JobState.SUCCEEDED
    assert [f"epoch {number}/5: " in printed for number in range(1, 6)] == [True] * 5
    assert "state: SUCCEEDED" in printed


@pytest.mark.extended
def test_the_guides_trainer_is_built_and_runs_by_hand(run: Run, tmp_path: Path, stack: LocalStack) -> None:
    folder = tmp_path / "my_trainer"
    folder.mkdir()
    for name in ("task.py", "Dockerfile"):
        (file,) = examples(f"trainer {name}", TRAINERS)
        (folder / name).write_text(file.code, encoding="utf-8")
    (block,) = examples("shell", TRAINERS)

    printed = run(block.code.replace(" my_trainer", f" {folder}"))

    assert printed.count("epoch 1: loss 0.500") == 2
    assert printed.count("epoch 3: loss 0.250") == 1
    # The object store is asked by a program of its own, as this process has no STORAGE_EMULATOR_HOST.
    metrics = run('eval "$(make -s env)"\ngcloud storage cat $JOB_BUCKET/by_hand/metrics.json')
    assert '{"loss": 0.25}' in metrics
