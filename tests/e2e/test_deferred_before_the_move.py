"""
Waits that the code of commit 6ec1646 deferred end under a whole Airflow of today.

The triggerer is stopped, gets the old rows, and is started again, as in an upgrade.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import docker
import psycopg
import pytest

from local_stack.parts.database import airflow_database_url
from local_stack.settings import Part
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from training_api.clients.training import TrainingClient
from training_api.job.labels import OWNER_LABEL
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.extended]

ROWS = Path(__file__).parents[1] / "integration" / "deferred_6ec1646" / "airflow.json"
WAIT = "wait_until_finished"
#: Runs until it gets a signal.
PROGRAM = (
    "import signal; signal.signal(signal.SIGTERM, lambda *_: exit({code})); "
    "print('ready', flush=True); signal.pause()"
)
_TRIGGER = """UPDATE trigger SET classpath = %s, kwargs = %s, triggerer_id = NULL FROM task_instance
WHERE trigger.id = trigger_id AND run_id = %s AND task_id = %s"""
_TASK = "UPDATE task_instance SET next_method = %s, next_kwargs = %s WHERE run_id = %s AND task_id = %s"


def make_old(connection: psycopg.Connection, run: Run, job_id: str, owner: str) -> None:
    """Give the run's wait the rows of the old code; only what names the job is new."""
    row: dict[str, Any] = json.loads(ROWS.read_text("utf-8"))["deferred"]["running_ends"]
    deadline = datetime.now(UTC) + timedelta(days=7)
    kwargs = row["trigger"]["kwargs"] | {
        "job_id": job_id,
        "owner": owner,
        "deadline_at": deadline.isoformat(),
    }
    trigger = (row["trigger"]["classpath"], json.dumps(kwargs))
    task = (row["next_method"], json.dumps(row["next_kwargs"]))
    for statement, values in ((_TRIGGER, trigger), (_TASK, task)):
        assert connection.execute(statement, (*values, run.run_id, WAIT)).rowcount == 1


def test_waits_of_an_earlier_version_go_on_after_an_upgrade(
    start_program: Callable[[str], Run],
    stack: LocalStack,
    training: TrainingClient,
    engine_client: docker.APIClient,
) -> None:
    def end(job_id: str) -> None:
        label = f"container-training.job={job_id}"
        (container,) = engine_client.containers(filters={"label": label})
        engine_client.kill(container["Id"], signal="SIGTERM")

    good, bad = (start_program(PROGRAM.format(code=code)) for code in (0, 3))
    jobs: dict[str, str] = {}
    for run in (good, bad):
        run.wait_for_task(WAIT, "deferred")
        run.wait_until_watched(WAIT)
        wait_until(lambda run=run: "ready" in run.log(WAIT), "the program is ready")  # type: ignore[misc]
        jobs[run.run_id] = run.xcom("submit")

    stack.processes.stop("airflow-triggerer")
    with psycopg.connect(airflow_database_url(stack.settings).replace("+psycopg", "")) as connection:
        for run in (good, bad):
            job_id = jobs[run.run_id]
            owner = (training.get_job(job_id).labels or {})[OWNER_LABEL]
            make_old(connection, run, job_id, owner)
    end(jobs[bad.run_id])
    wait_until(lambda: training.get_job(jobs[bad.run_id]).state is JobState.FAILED, "the job has failed")
    stack.up([Part.AIRFLOW])
    starts = re.compile(r"trigger \S+ \(ID \d+\) starting")
    wait_until(lambda: len(starts.findall(good.log(WAIT))) == 2, "the new triggerer has the wait")
    end(jobs[good.run_id])

    good.wait_for_task(WAIT, "success")
    assert good.xcom(WAIT) == "SUCCEEDED"
    bad.wait_for_task(WAIT, "failed")
    assert "The replica master 0 exited with a non-zero status of 3." in bad.log(WAIT)
    assert [run.failures(WAIT) for run in (good, bad)] == [0, 1]
