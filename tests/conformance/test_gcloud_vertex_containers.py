"""``gcloud ai`` as installed, against jobs in real containers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.conformance.conftest import FollowedGcloud, Gcloud
from tests.support.bed.job_watch import messages
from tests.support.bed.vertex import ended
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]

TRAINER = """
import sys
print("trained with", *sys.argv[1:], flush=True)
print("a warning of the trainer", file=sys.stderr)
"""
SLEEP = "import time; time.sleep(600)"
#: It counts until it is cancelled.
COUNTER = """
import itertools, time
for number in itertools.count(1):
    print("count", number, flush=True)
    time.sleep(0.5)
"""
#: As cloudml-hypertune writes it.
TUNED = """
import json, os, sys, time
rate = float(sys.argv[-1].partition("=")[2])
with open(os.environ["CLOUD_ML_HP_METRIC_FILE"], "a") as file:
    report = {"timestamp": time.time(), "trial": os.environ["CLOUD_ML_TRIAL_ID"], "accuracy": str(1 - rate)}
    print(json.dumps(report | {"global_step": "1"}), file=file)
"""
STUDY = {
    "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
    "parameters": [{"parameterId": "rate", "doubleValueSpec": {"minValue": 0.1, "maxValue": 0.9}}],
}
WHERE = ("--region", "us-central1")
JSON = ("--format", "json")

#: Writes what ``--config`` names.
Config = Callable[..., Path]


@pytest.fixture
def ai(gcloud: Gcloud) -> Callable[..., str]:
    """``gcloud ai`` in the region; it succeeds and returns its output."""

    def ai(*arguments: str | Path) -> str:
        done = gcloud("ai", *arguments, *WHERE)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return ai


@pytest.fixture
def config(tmp_path: Path) -> Config:
    def config(content: dict[str, Any]) -> Path:
        file = tmp_path / "config.yaml"  # which JSON is
        file.write_text(json.dumps(content))
        return file

    return config


def pools(image: ImageRef, program: str, *args: str) -> dict[str, Any]:
    container = {"imageUri": str(image), "command": ["python3", "-c", program], "args": list(args)}
    machine = {"machineType": "n1-standard-4"}
    return {"workerPoolSpecs": [{"machineSpec": machine, "replicaCount": "1", "containerSpec": container}]}


def created(ai: Callable[..., str], kind: str, *flags: str | Path) -> str:
    """Create a job and return its name."""
    return str(json.loads(ai(kind, "create", "--display-name", "of gcloud", *flags, *JSON))["name"])


def containers_of(engine: docker.APIClient, job_name: str) -> list[Any]:
    label = f"container-training.job={job_name.rpartition('/')[2]}"
    return list(engine.containers(all=True, filters={"label": label}))


def test_a_job_of_a_file_is_listed_and_its_log_is_streamed_to_its_end(
    ai: Callable[..., str], config: Config, locations: Any, pushed_image: ImageRef
) -> None:
    """``stream-logs`` asks once whether the job has ended; of one that runs it never ends."""
    file = config(pools(pushed_image, TRAINER, "--epochs=3"))
    name = created(ai, "custom-jobs", "--config", file)
    assert ended(locations.customJobs(), name)["state"] == "JOB_STATE_SUCCEEDED"

    listed = json.loads(ai("custom-jobs", "list", *JSON))
    streamed = ai("custom-jobs", "stream-logs", name, "--polling-interval=1")

    assert {job["name"]: job["state"] for job in listed}[name] == "JOB_STATE_SUCCEEDED"
    lines = [line.split("\t") for line in streamed.splitlines()]
    found = [(line[0], line[2], line[-1]) for line in lines if "workerpool0-0" in line]
    assert sorted(found) == [  # the engine copies the two outputs side by side
        ("ERROR", "workerpool0-0", "a warning of the trainer"),
        ("INFO", "workerpool0-0", "trained with --epochs=3"),
    ]
    assert "Job completed successfully." in streamed


def test_the_lines_of_a_job_arrive_while_it_runs(
    ai: Callable[..., str],
    followed_gcloud: FollowedGcloud,
    config: Config,
    locations: Any,
    training: TrainingClient,
    pushed_image: ImageRef,
) -> None:
    jobs = locations.customJobs()
    name = created(ai, "custom-jobs", "--config", config(pools(pushed_image, COUNTER)))
    stream = ("ai", "custom-jobs", "stream-logs", name, "--polling-interval=1", *WHERE)

    with followed_gcloud(*stream) as lines:
        first = next(counts(lines))
        newest = max(counts(messages(training, name.rpartition("/")[2])))
        # Written after gcloud had begun to print.
        later = next(count for count in counts(lines) if count > newest)
        running = jobs.get(name=name).execute()
    jobs.cancel(name=name).execute()

    assert first == 1
    assert (running["state"], later > newest) == ("JOB_STATE_RUNNING", True)
    assert ended(jobs, name)["state"] == "JOB_STATE_CANCELLED"


def counts(lines: Iterable[str]) -> Iterator[int]:
    """Yield the numbers that the trainer has counted, in the order of the lines."""
    yield from (int(found[1]) for line in lines if (found := re.search(r"count (\d+)$", line.rstrip())))


def test_a_job_of_flags_that_is_cancelled_while_it_runs_leaves_no_container(
    ai: Callable[..., str], locations: Any, pushed_image: ImageRef, engine_client: docker.APIClient
) -> None:
    pool = f"machine-type=n1-standard-4,replica-count=1,container-image-uri={pushed_image}"
    command = f"--command=^|^python3|-c|{SLEEP}"
    name = created(ai, "custom-jobs", "--worker-pool-spec", pool, command)
    wait_until(lambda: containers_of(engine_client, name), "its container runs", seconds=60)

    ai("custom-jobs", "cancel", name)

    assert ended(locations.customJobs(), name)["state"] == "JOB_STATE_CANCELLED"
    described = json.loads(ai("custom-jobs", "describe", name, *JSON))
    assert (described["state"], described["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)
    wait_until(lambda: not containers_of(engine_client, name), "its container is gone", seconds=60)


def test_tuning_jobs_run_their_trials_or_are_cancelled_with_them(
    ai: Callable[..., str],
    config: Config,
    locations: Any,
    pushed_image: ImageRef,
    engine_client: docker.APIClient,
) -> None:
    create = partial(created, ai, "hp-tuning-jobs", "--max-trial-count=2", "--parallel-trial-count=2")
    jobs = locations.hyperparameterTuningJobs()
    tuned = create("--config", config({"studySpec": STUDY, "trialJobSpec": pools(pushed_image, TUNED)}))
    assert ended(jobs, tuned)["state"] == "JOB_STATE_SUCCEEDED"
    running = create("--config", config({"studySpec": STUDY, "trialJobSpec": pools(pushed_image, SLEEP)}))
    wait_until(lambda: len(containers_of(engine_client, running)) == 2, "both trials run", seconds=60)

    ai("hp-tuning-jobs", "cancel", running)

    assert ended(jobs, running)["state"] == "JOB_STATE_CANCELLED"
    wait_until(lambda: not containers_of(engine_client, running), "their containers are gone", seconds=60)
    described = json.loads(ai("hp-tuning-jobs", "describe", tuned, *JSON))
    assert [trial["state"] for trial in described["trials"]] == ["SUCCEEDED", "SUCCEEDED"]
    for trial in described["trials"]:
        (rate,), (metric,) = trial["parameters"], trial["finalMeasurement"]["metrics"]
        assert metric["value"] == pytest.approx(1 - rate["value"])
    states = {job["name"]: job["state"] for job in json.loads(ai("hp-tuning-jobs", "list", *JSON))}
    assert (states[tuned], states[running]) == ("JOB_STATE_SUCCEEDED", "JOB_STATE_CANCELLED")
