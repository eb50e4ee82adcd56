"""
``gcloud ai-platform jobs`` as installed, against a real service: exit codes and output.

gcloud takes seconds a call, so the tests share the jobs of one session.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.bed.job_watch import until_state
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]

TRAINER = "import sys; print('trained with', sys.argv[1:])"

#: Runs ``gcloud ai-platform jobs ...``.
Jobs = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def jobs(gcloud: Jobs) -> Jobs:
    """``gcloud ai-platform jobs``."""
    return partial(gcloud, "ai-platform", "jobs")


@pytest.fixture(scope="module")
def submit(jobs: Jobs, pushed_image: ImageRef) -> Jobs:
    """Run ``submit training`` with a job id, gcloud's flags, and a Python program."""

    def submit(
        job_id: str, program: str, *arguments: str, flags: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        where = ("--region", "us-central1", "--master-image-uri", str(pushed_image))
        return jobs(
            "submit", "training", job_id, *where, *flags, "--", "python3", "-u", "-c", program, *arguments
        )

    return submit


@pytest.fixture(scope="module")
def submitted(submit: Jobs) -> tuple[str, subprocess.CompletedProcess[str]]:
    """The id of the job that most tests look at, and what gcloud said when it submitted it."""
    job_id = f"gcloud_{uuid.uuid4().hex[:8]}"
    return job_id, submit(job_id, TRAINER, "--lr=0.1", "--epochs", "3", flags=("--labels", "team=vision"))


@pytest.fixture
def finished(submitted: tuple[str, object], training: TrainingClient) -> str:
    """The id of the same job, once it has ended."""
    job_id, _ = submitted
    until_state(training, job_id, JobState.SUCCEEDED)
    return job_id


def test_submit_says_that_the_job_is_queued(
    submitted: tuple[str, subprocess.CompletedProcess[str]], training: TrainingClient
) -> None:
    job_id, done = submitted

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"jobId: {job_id}", "state: QUEUED"]
    assert f"Job [{job_id}] submitted successfully." in done.stderr
    asked = training.get_job(job_id)
    assert asked.labels == {"team": "vision"}
    assert (asked.training_input or TrainingInput()).args == [
        *("python3", "-u", "-c", TRAINER),
        *("--lr=0.1", "--epochs", "3"),
    ]


def test_describe_shows_the_state(jobs: Jobs, finished: str) -> None:
    done = jobs("describe", finished)

    assert done.returncode == 0, done.stderr
    assert {f"jobId: {finished}", "state: SUCCEEDED"} <= set(done.stdout.splitlines())


def test_describe_summarizes_the_state(jobs: Jobs, finished: str) -> None:
    done = jobs("describe", finished, "--summarize")

    assert done.returncode == 0, done.stderr
    assert finished in done.stdout
    assert "SUCCEEDED" in done.stdout


def test_submit_takes_a_config_file_and_the_users_arguments_replace_its_own(
    jobs: Jobs, training: TrainingClient, pushed_image: ImageRef, job_id: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        f"""
labels:
  team: files
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-standard-4
  masterConfig:
    imageUri: {pushed_image}
  args: ["--of-the-file"]
  scheduling:
    maxRunningTime: 600s
""",
        encoding="utf-8",
    )

    command = ("python3", "-c", TRAINER, "--epochs", "2")
    done = jobs("submit", "training", job_id, "--region", "us-central1", "--config", config, "--", *command)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"jobId: {job_id}", "state: QUEUED"]
    until_state(training, job_id, JobState.SUCCEEDED)
    found = training.get_job(job_id)
    asked = found.training_input or TrainingInput()
    assert (found.labels, asked.master_type) == ({"team": "files"}, "n1-standard-4")
    assert asked.args == [*command]


def test_a_config_file_with_a_wrong_field_is_refused_by_its_name(
    jobs: Jobs, pushed_image: ImageRef, job_id: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("trainingInput:\n  scaleTeir: BASIC\n", encoding="utf-8")

    image = ("--master-image-uri", str(pushed_image))
    done = jobs("submit", "training", job_id, "--region", "us-central1", *image, "--config", config)

    assert done.returncode == 1
    assert "scaleTeir" in done.stderr


def test_list_finds_the_job_by_a_filter(jobs: Jobs, finished: str) -> None:
    done = jobs("list", "--filter", f"jobId={finished} AND state=SUCCEEDED")

    assert done.returncode == 0, done.stderr
    header, row = done.stdout.splitlines()
    assert header.split() == ["JOB_ID", "STATUS", "CREATED"]
    assert row.split()[:2] == [finished, "SUCCEEDED"]


def test_update_adds_labels_to_those_there_and_clears_them(
    jobs: Jobs, finished: str, training: TrainingClient
) -> None:
    added = jobs("update", finished, "--update-labels", "env=prod")
    labels = training.get_job(finished).labels
    cleared = jobs("update", finished, "--clear-labels")

    assert (added.returncode, cleared.returncode) == (0, 0), added.stderr + cleared.stderr
    assert labels == {"team": "vision", "env": "prod"}
    assert training.get_job(finished).labels is None


def test_stream_logs_shows_the_lines_of_a_finished_job_and_ends(jobs: Jobs, finished: str) -> None:
    done = jobs("stream-logs", finished)

    assert done.returncode == 0, done.stderr
    assert "trained with ['--lr=0.1', '--epochs', '3']" in done.stdout
    assert "Job completed successfully." in done.stdout


def test_submitting_a_job_id_again_is_a_conflict(submit: Jobs, submitted: tuple[str, object]) -> None:
    job_id, _ = submitted

    done = submit(job_id, TRAINER)

    assert done.returncode == 1
    assert "is the subject of a conflict" in done.stderr
    assert f"job '{job_id}' already exists" in done.stderr


def test_unknown_job_is_not_found(jobs: Jobs) -> None:
    done = jobs("describe", "absent")

    assert done.returncode == 1
    assert "NOT_FOUND" in done.stderr
    assert "job 'absent' not found" in done.stderr


def test_cancel_ends_a_running_job(
    jobs: Jobs, training: TrainingClient, pushed_image: ImageRef, job_id: str
) -> None:
    config = ReplicaConfig(
        image_uri=str(pushed_image), container_command=["python3", "-c", "import time; time.sleep(600)"]
    )
    training.create_job(Job(job_id=job_id, training_input=TrainingInput(master_config=config)))
    until_state(training, job_id, JobState.RUNNING)

    done = jobs("cancel", job_id)

    assert (done.returncode, done.stdout) == (0, "")
    until_state(training, job_id, JobState.CANCELLED)


def test_submit_that_streams_the_log_fails_with_its_trainer(
    submit: Jobs, training: TrainingClient, job_id: str
) -> None:
    done = submit(job_id, "print('no data'); raise SystemExit(3)", flags=("--stream-logs",))

    assert done.returncode == 1
    assert "no data" in done.stderr
    assert "state: FAILED" in done.stdout
    assert training.get_job(job_id).error_message == (
        "The replica master 0 exited with a non-zero status of 3."
    )
