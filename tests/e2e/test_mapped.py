"""Mapped tasks under the real scheduler: they wait together, and each is ended by itself."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import docker
import pytest

from local_stack.people.airflow_api import AirflowApi
from tests.e2e.airflow_run import Run, wait_until
from tests.support.bed.real_parts import end_all_jobs
from tests.support.bed.tiny_trainer import write_trainer
from tests.support.own_images import remove_own_images
from training_api.clients.training import TrainingClient
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(900)]

WAIT = "train.wait_until_finished"
CONFIGURATIONS = ["--sleep 20 --accuracy 0.7", "--sleep 900", "--sleep 901"]


def states(run: Run, task_id: str) -> dict[int, str]:
    """Return the states of a mapped task."""
    tasks = run.api.task_instances(run.dag_id, run.run_id)
    return {task["map_index"]: task["state"] for task in tasks if task["task_id"] == task_id}


def job_id_of(run: Run, map_index: int) -> str:
    """Return the job that a mapped wait is about, as its button shows it."""
    return (run.links(WAIT, map_index)["Job"] or "").rpartition("/")[2].partition("?")[0]


def test_mapped_waits_are_deferred_together_and_killed_one_by_one(
    airflow: AirflowApi, training: TrainingClient, engine_client: docker.APIClient, tmp_path: Path
) -> None:
    trainer = write_trainer(tmp_path, name="tiny-mapped")
    try:
        run = Run.start(airflow, "train_many", {"trainers": [str(trainer)], "configurations": CONFIGURATIONS})
        # On a slow machine the first job has ended by then.
        ready = ({"deferred", "success"}, {"deferred"}, {"deferred"})
        wait_until(
            lambda: all(states(run, WAIT).get(index) in ready[index] for index in range(3)),
            "the waits are deferred",
        )
        jobs = {index: job_id_of(run, index) for index in range(3)}
        wait_until(
            lambda: all(training.get_job(jobs[index]).state is JobState.RUNNING for index in (1, 2)),
            "the two long jobs run",
        )

        path = f"/api/v2/dags/{run.dag_id}/dagRuns/{quote(run.run_id)}/taskInstances/{WAIT}/1"
        run.api.call("PATCH", path, json={"new_state": "failed"})
        wait_until(
            lambda: training.get_job(jobs[1]).state is JobState.CANCELLED, "the second job is cancelled"
        )
        others = [training.get_job(jobs[index]).state for index in (0, 2)]
        training.cancel_job(jobs[2])
        run.wait_for_end()
    finally:
        end_all_jobs(training)  # an image that a container uses cannot be removed
        remove_own_images(engine_client, lambda name: "/tiny-mapped" in name)

    assert len(set(jobs.values())) == 3
    assert JobState.CANCELLED not in others
    assert states(run, WAIT) == {0: "success", 1: "failed", 2: "failed"}
    assert states(run, "train.collect") == {0: "success", 1: "upstream_failed", 2: "upstream_failed"}
    assert run.states()["best"] == "success", run.log("best")
    assert run.xcom("best")["job_id"] == jobs[0]
