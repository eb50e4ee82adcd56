"""
``gcloud ai custom-jobs stream-logs`` as installed, against a job in a real container.

It asks once whether the job has ended: on one that runs it never ends, so this one has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.conftest import Gcloud
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]

TRAINER = """
import sys
print("trained with", *sys.argv[1:], flush=True)
print("a warning of the trainer", file=sys.stderr)
"""


def test_the_log_of_a_job_that_has_ended_is_streamed_to_its_end(
    gcloud: Gcloud, pushed_image: ImageRef, tmp_path: Path
) -> None:
    container = {"imageUri": str(pushed_image), "command": ["python3", "-c", TRAINER], "args": ["--epochs=3"]}
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": container,
    }
    config = tmp_path / "job.yaml"  # which JSON is
    config.write_text(json.dumps({"workerPoolSpecs": [pool]}))
    where = ("--region", "us-central1")
    form = (*where, "--format", "json")

    created = gcloud("ai", "custom-jobs", "create", "--display-name", "a log", "--config", config, *form)
    assert created.returncode == 0, created.stderr
    name = json.loads(created.stdout)["name"]

    def state() -> str:
        found: str = json.loads(gcloud("ai", "custom-jobs", "describe", name, *form).stdout)["state"]
        return found

    wait_until(lambda: state() == "JOB_STATE_SUCCEEDED", f"{name} has succeeded", seconds=120)
    streamed = gcloud("ai", "custom-jobs", "stream-logs", name, *where, "--polling-interval=1")

    assert streamed.returncode == 0, streamed.stderr
    lines = [line.split("\t") for line in streamed.stdout.splitlines()]
    found = [(line[0], line[2], line[-1]) for line in lines if "workerpool0-0" in line]
    assert sorted(found) == [  # the engine copies the two outputs side by side
        ("ERROR", "workerpool0-0", "a warning of the trainer"),
        ("INFO", "workerpool0-0", "trained with --epochs=3"),
    ]
    assert "Job completed successfully." in streamed.stdout
