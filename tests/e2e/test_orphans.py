"""
Jobs without a live owner, under the real scheduler.

The command and the DAG find them, and never a job that a task waits for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_stack.environment import client_environment
from local_stack.parts.airflow import passwords_file
from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ORPHAN_FINDER, ensure_password
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.resources import Job, ReplicaConfig, TrainingInput
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e]

WAIT = "wait_until_finished"
SLEEPS = "import time; time.sleep(900)"
FOREIGN_LABELS = {
    "airflow-dag": "train_from_image",
    "airflow-run": "manual__of-another-airflow",
    "airflow-task": "submit",
    "airflow-owner": "0" * 32,
}


@pytest.fixture
def orphans(stack: LocalStack, base_image: str) -> Callable[..., dict[str, dict[str, Any]]]:
    """Run the command as a person does; job id -> what it says."""
    password = ensure_password(passwords_file(stack.settings), ORPHAN_FINDER)
    environment = client_environment(stack.settings, base_image=base_image, finder_password=password)

    def orphans(*arguments: str) -> dict[str, dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "container_training", "orphans", "--json", *arguments],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | environment,
        )
        return {row["jobId"]: row for row in json.loads(done.stdout)["orphans"]}

    return orphans


def wait_for_job(training: TrainingClient, run: Run) -> str:
    """Return the run's job once it runs and the triggerer waits for it."""
    run.wait_for_task(WAIT, "deferred")
    job_id: str = run.xcom("submit")
    wait_until(lambda: training.get_job(job_id).state is JobState.RUNNING, "job runs")
    run.wait_until_watched(WAIT)
    return job_id


def count_kept_jobs(run: Run, triggerer_log: Path) -> int:
    """
    Return how many times triggers of the run have logged that their job keeps running.

    What a trigger logs a second after its cancellation is in the triggerer's log, not in its task's.
    """
    tries = (run.log_if_any(WAIT, number) for number in range(1, run.tries(WAIT) + 1))
    in_triggerer = (line for line in triggerer_log.read_text("utf-8").splitlines() if run.run_id in line)
    return sum(text.count("keeps running: the task was") for text in (*tries, *in_triggerer))


def end_without_their_jobs(airflow: AirflowApi, runs: list[Run], triggerer_log: Path) -> None:
    """
    Mark the waits as done while the rest of their runs is held back, then release the rest.

    So the jobs are kept for the rest of the run.

    It finds no results, and the runs are over; the jobs are not.
    """
    airflow.call("PATCH", f"/api/v2/dags/{runs[0].dag_id}", json={"is_paused": True})
    before = [count_kept_jobs(run, triggerer_log) for run in runs]
    for run in runs:
        run.mark(WAIT, "success")

    def are_kept() -> bool:
        now = [count_kept_jobs(run, triggerer_log) for run in runs]
        return all(count > earlier for count, earlier in zip(now, before, strict=True))

    wait_until(are_kept, "the triggers have left the jobs running")
    airflow.unpause(runs[0].dag_id)
    for run in runs:
        assert run.wait_for_end() == "failed"


def test_only_jobs_that_nobody_waits_for_are_orphans(
    start_program: Callable[[str], Run],
    orphans: Callable[..., dict[str, dict[str, Any]]],
    airflow: AirflowApi,
    training: TrainingClient,
    pushed_image: ImageRef,
    stack: LocalStack,
) -> None:
    triggerer_log = stack.settings.log_dir / "airflow-triggerer.log"
    runs = [start_program(SLEEPS) for _ in range(3)]
    watched, first, second = (wait_for_job(training, run) for run in runs)
    foreign = "job_of_another_airflow"
    config = ReplicaConfig(image_uri=str(pushed_image), container_command=["python3", "-c", SLEEPS])
    given = TrainingInput(region="us-central1", master_config=config)
    training.create_job(Job(job_id=foreign, labels=FOREIGN_LABELS, training_input=given))
    end_without_their_jobs(airflow, runs[1:], triggerer_log)

    assert first not in orphans("--grace", "3600"), "younger than the grace"
    found = orphans("--grace", "0")
    assert watched not in found
    assert found[first]["verdict"] == found[second]["verdict"] == "ORPHAN"
    assert (
        found[first]["why"]
        == "its run is over (submit: success, wait_until_finished: success, collect: failed)"
    )
    assert (found[foreign]["verdict"], found[foreign]["cancelled"]) == ("UNKNOWN", False)

    # Cleared, it has somebody again; the other has not.
    runs[1].clear(WAIT, include_downstream=True)
    assert wait_for_job(training, runs[1]) == first
    found = orphans("--grace", "0", "--cancel")
    assert first not in found
    assert found[second]["cancelled"]
    wait_until(lambda: training.get_job(second).state is JobState.CANCELLED, "the orphan is cancelled")
    end_without_their_jobs(airflow, runs[1:2], triggerer_log)

    maintenance = Run.start(airflow, "cancel_orphans", {"grace_seconds": 0})
    maintenance.wait_for_success()
    rows = {row["job_id"]: row for row in maintenance.xcom("cancel_orphans")}
    assert (rows[first]["cancelled"], rows[foreign]["cancelled"]) == (True, False)
    assert watched not in rows
    wait_until(lambda: training.get_job(first).state is JobState.CANCELLED, "the orphan is cancelled")
    assert training.get_job(foreign).state is JobState.RUNNING
    assert training.get_job(watched).state is JobState.RUNNING

    training.cancel_job(foreign)
    training.cancel_job(watched)
    assert runs[0].wait_for_end() == "failed"
