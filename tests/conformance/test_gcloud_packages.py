"""``submit training`` of gcloud with packages: gcloud uploads, a job runs them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from local_stack.stack import LocalStack
from tests.support import web
from tests.support.bed.job_watch import until_end
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.states import JobState

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]

PACKAGE_FLAGS = (
    *("--region", "us-central1", "--runtime-version", "2.11", "--python-version", "3.7"),
    *("--module-name", "trainer.task"),
)
TASK = """
import os, sys
from trainer import data
print("arguments", sys.argv[1:])
print("sum", sum(data.ROWS), "project", os.environ["GOOGLE_CLOUD_PROJECT"], "cluster", "TF_CONFIG" in os.environ)
"""

#: Runs ``gcloud ai-platform jobs submit training ID FLAGS`` in a folder.
Submit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def submit(gcloud: Submit, project: Path, job_id: str) -> Submit:
    """``submit training`` of the job, in the folder with the package."""
    return partial(gcloud, "ai-platform", "jobs", "submit", "training", job_id, *PACKAGE_FLAGS, cwd=project)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the package ``trainer``, as in the tutorials."""
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "data.py").write_text("ROWS = [1, 2, 3]\n")
    (tmp_path / "trainer" / "task.py").write_text(TASK)
    return tmp_path


@pytest.fixture
def bucket(stack: LocalStack) -> str:
    """The bucket of the stack, ``gs://NAME``."""
    return f"gs://{stack.settings.bucket}"


def wait_for_end(training: TrainingClient, job_id: str) -> tuple[Job, str]:
    """Return the job that has ended, and its log as one text."""
    found = until_end(training, job_id)
    page = training.list_log_entries(job_log_filter(job_id))
    log = "\n".join(entry.message for entry in page.entries or [])
    print(log)
    return found, log


def uris_of(job: Job) -> list[str]:
    return (job.training_input or TrainingInput()).package_uris or []


def stored(stack: LocalStack, uri: str) -> bytes:
    """Return the object at ``uri``."""
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    url = f"{stack.settings.object_store_url}/download/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
    return web.get(url, params={"alt": "media"}).raise_for_status().content


def write_big_package(folder: Path) -> Path:
    """Return a source distribution above 5 MiB, which gcloud uploads in the resumable way."""
    (folder / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='weights', version='1.0', packages=['weights'], package_data={'weights': ['*.bin']})\n"
    )
    (folder / "weights").mkdir()
    (folder / "weights" / "__init__.py").touch()
    (folder / "weights" / "all.bin").write_bytes(os.urandom(6 * 2**20))
    target = folder / "weights-1.0.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for name in ("setup.py", "weights"):
            archive.add(folder / name, f"weights-1.0/{name}")
    return target


def test_a_package_folder_is_uploaded_to_the_staging_bucket_and_runs(
    submit: Submit, stack: LocalStack, training: TrainingClient, job_id: str, bucket: str
) -> None:
    done = submit("--package-path", "trainer", "--staging-bucket", bucket, "--", "--epochs", "3", "--", "-v")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"jobId: {job_id}", "state: QUEUED"]
    job, log = wait_for_end(training, job_id)
    assert job.state is JobState.SUCCEEDED, job.error_message
    (uri,) = uris_of(job)
    digest = hashlib.sha256(stored(stack, uri)).hexdigest()
    assert uri == f"{bucket}/{job_id}/{digest}/trainer-0.0.0.tar.gz"
    assert "arguments ['--epochs', '3', '--', '-v']" in log
    assert f"sum 6 project {stack.settings.project} cluster True" in log
    assert "runtime version 2.11 runs here on Python 3.11" in log


def test_with_a_job_dir_alone_the_package_is_uploaded_below_it(
    submit: Submit, training: TrainingClient, job_id: str, bucket: str
) -> None:
    job_dir = f"{bucket}/jobs/{job_id}"

    done = submit("--package-path", "trainer", "--job-dir", job_dir, "--", "--epochs=3")

    assert done.returncode == 0, done.stderr
    job, log = wait_for_end(training, job_id)
    assert job.state is JobState.SUCCEEDED, job.error_message
    (uri,) = uris_of(job)
    assert uri.startswith(f"{job_dir}/packages/")
    assert f"arguments ['--epochs=3', '--job-dir', '{job_dir}']" in log


def test_a_folder_with_a_setup_py_and_a_big_package_beside_it_run_together(
    submit: Submit, training: TrainingClient, job_id: str, bucket: str, project: Path, tmp_path_factory: Any
) -> None:
    (project / "setup.py").write_text(
        "from setuptools import find_packages, setup\n"
        "setup(name='mine', version='3.1', packages=find_packages(), install_requires=['weights>=1'])\n"
    )
    (project / "trainer" / "task.py").write_text(
        "import os, weights\nprint('weights', os.path.getsize(os.path.join(weights.__path__[0], 'all.bin')))\n"
    )
    big = write_big_package(tmp_path_factory.mktemp("weights"))

    done = submit("--package-path", "trainer", "--packages", big, "--staging-bucket", bucket)

    assert done.returncode == 0, done.stderr
    job, log = wait_for_end(training, job_id)
    assert job.state is JobState.SUCCEEDED, job.error_message
    assert sorted(uri.rpartition("/")[2] for uri in uris_of(job)) == ["mine-3.1.tar.gz", "weights-1.0.tar.gz"]
    assert f"weights {6 * 2**20}" in log


def test_a_trainer_that_fails_fails_its_job_with_its_own_exit_code(
    submit: Submit, training: TrainingClient, job_id: str, bucket: str, project: Path
) -> None:
    (project / "trainer" / "task.py").write_text("raise SystemExit(7)\n")

    done = submit("--package-path", "trainer", "--staging-bucket", bucket)

    assert done.returncode == 0, done.stderr
    job, _ = wait_for_end(training, job_id)
    assert job.state is JobState.FAILED
    assert job.error_message == "The replica master 0 exited with a non-zero status of 7."


def test_an_unknown_runtime_version_is_refused_with_the_known_ones(
    submit: Submit, training: TrainingClient, bucket: str
) -> None:
    done = submit(
        *("--package-path", "trainer", "--staging-bucket", bucket),
        *("--runtime-version", "0.9", "--python-version", "3.7"),
    )

    assert done.returncode == 1
    assert "INVALID_ARGUMENT" in done.stderr
    assert "field: trainingInput.runtimeVersion" in done.stderr
    assert "must be one of 1.15, 2.1, 2.2," in done.stderr
