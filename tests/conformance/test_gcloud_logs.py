"""
``gcloud ai-platform jobs stream-logs`` as installed, against a real service.

Its output, and its exit codes.

gcloud looks at a job's state every 10 s and ends after two empty polls, so each call takes half a minute; the
tests share two jobs.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from local_stack.environment import client_environment
from local_stack.stack import LocalStack
from tests.conformance.gcloud import Result, run_gcloud
from tests.support.bed.job_watch import until_state
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]

TRAINER = """
import json, sys, time
print("epoch 1", flush=True)
print(json.dumps({"severity": "WARNING", "message": "loss rises", "loss": 0.5}), flush=True)
print(json.dumps({"severity": "NOTICE", "message": "two\\nlines"}), flush=True)
print(json.dumps({"severity": "DEBUG", "message": {"not": "text"}, "nested": [1, None]}), flush=True)
time.sleep(3)  # the engine copies the two outputs side by side
print("no data", file=sys.stderr, flush=True)
raise SystemExit(int(sys.argv[1]))
"""
MASTER = "master-replica-0"
EXPECTED = [
    ("INFO", MASTER, "epoch 1"),
    ("WARNING", MASTER, "loss rises"),
    ("NOTICE", MASTER, "two"),
    ("NOTICE", MASTER, "lines"),
    ("DEBUG", MASTER, '{"not": "text"}'),
    ("ERROR", MASTER, "no data"),
]
Line = tuple[str, str, str]


@pytest.fixture(scope="module")
def jobs(
    stack: LocalStack, base_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Result]:
    """Run ``gcloud ai-platform jobs ...`` with the environment of ``make env``."""
    environment = client_environment(stack.settings, base_image=base_image)

    def run(*arguments: str) -> Result:
        # Calls run side by side.
        config = tmp_path_factory.mktemp("gcloud")
        return run_gcloud("ai-platform", "jobs", *arguments, environment=environment, config=config)

    return run


@pytest.fixture(scope="module")
def ended_job(stack: LocalStack, pushed_image: ImageRef) -> str:
    """The id of a job that wrote all kinds of lines and failed with 3."""
    job_id = f"gcloud_{uuid.uuid4().hex[:8]}"
    with TrainingClient(stack.settings.training_url, stack.settings.project) as client:
        config = ReplicaConfig(
            image_uri=str(pushed_image), container_command=["python3", "-c", TRAINER], container_args=["3"]
        )
        client.create_job(
            Job(job_id=job_id, training_input=TrainingInput(region="us-central1", master_config=config))
        )
        until_state(client, job_id, JobState.FAILED)
    return job_id


@pytest.fixture(scope="module")
def calls(
    jobs: Callable[..., Result], ended_job: str, pushed_image: ImageRef
) -> Iterator[dict[str, Future[Result]]]:
    """All of this file's calls, begun at once: they wait for the clock most of their time."""

    def submit(exit_code: int) -> Result:
        return jobs(
            *("submit", "training", f"gcloud_{uuid.uuid4().hex[:8]}", "--region", "us-central1"),
            *("--master-image-uri", str(pushed_image), "--stream-logs"),
            *("--", "python3", "-c", TRAINER, str(exit_code)),
        )

    with ThreadPoolExecutor(4) as pool:
        yield {
            "succeeding": pool.submit(submit, 0),
            "failing": pool.submit(submit, 3),
            "all": pool.submit(jobs, "stream-logs", ended_job),
            "task": pool.submit(
                jobs, "stream-logs", ended_job, f"--task-name={MASTER}", "--allow-multiline-logs"
            ),
            "service": pool.submit(jobs, "stream-logs", ended_job, "--task-name=service"),
            "absent": pool.submit(jobs, "stream-logs", "absent"),
        }


def lines_of(output: str) -> list[Line]:
    """Return severity, task and message of the lines that are log lines."""
    found = re.findall(
        r"^([A-Z]+)\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}\t(\S+)\t\t(.*)$", output, re.MULTILINE
    )
    return [(severity, task, message) for severity, task, message in found]


def of_master(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line[1] == MASTER]


@pytest.mark.parametrize(
    ("name", "status", "state", "end"),
    [
        ("succeeding", 0, "SUCCEEDED", ("INFO", "service", "Job completed successfully.")),
        (
            "failing",
            1,
            "FAILED",
            (
                "ERROR",
                "service",
                "Job failed: The replica master 0 exited with a non-zero status of 3.",
            ),
        ),
    ],
)
def test_submit_that_streams_prints_every_line_and_ends_as_the_job(
    calls: dict[str, Future[Result]], name: str, status: int, state: str, end: Line
) -> None:
    done = calls[name].result()

    assert done.returncode == status
    lines = lines_of(done.stderr)
    assert of_master(lines) == EXPECTED
    assert end in lines
    assert lines[0][2].endswith("is queued.")
    assert f"state: {state}" in done.stdout.splitlines()


def test_stream_logs_of_a_failed_job_prints_every_line_and_is_no_failure(
    calls: dict[str, Future[Result]],
) -> None:
    done = calls["all"].result()

    assert done.returncode == 0, done.stderr
    assert of_master(lines_of(done.stdout)) == EXPECTED
    assert {task for _, task, _ in lines_of(done.stdout)} == {MASTER, "service"}


def test_stream_logs_of_one_task_shows_no_other_and_keeps_lines_together(
    calls: dict[str, Future[Result]],
) -> None:
    done = calls["task"].result()

    assert done.returncode == 0, done.stderr
    lines = lines_of(done.stdout)
    assert [line for line in lines if line[2] != "two"] == [
        line for line in EXPECTED if line[2] not in ("two", "lines")
    ]
    assert "two\nlines\n" in done.stdout


def test_stream_logs_of_the_service_shows_the_states(calls: dict[str, Future[Result]]) -> None:
    done = calls["service"].result()

    assert done.returncode == 0, done.stderr
    assert of_master(lines_of(done.stdout)) == []
    assert [line for line in lines_of(done.stdout) if line[0] == "ERROR"] == [
        ("ERROR", "service", "Job failed: The replica master 0 exited with a non-zero status of 3.")
    ]


def test_stream_logs_of_an_unknown_job_is_an_error(calls: dict[str, Future[Result]]) -> None:
    done = calls["absent"].result()

    assert done.returncode == 1
    assert "job 'absent' not found" in done.stderr
