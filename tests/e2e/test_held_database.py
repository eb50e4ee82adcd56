"""
A process that holds Airflow's database for as long as SQLite would wait.

No task is lost, and no job cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from local_stack.parts.database import airflow_database_url
from local_stack.people.airflow_api import AirflowApi
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.support.waiting import wait_until
from training_api.clients.training import TrainingClient
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e]

#: SQLite gives up after five seconds; Airflow's API server then marks the task failed that it was to change.
HELD_SECONDS = 8.0
WAIT = "wait_until_finished"


@contextmanager
def task_instances_of(url: str) -> Iterator[psycopg.Connection]:
    """Yield a transaction that may lock the table of task instances."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        yield connection


def test_a_wait_that_defers_while_the_database_is_held_keeps_its_job(
    start_program: Callable[[str], Run], training: TrainingClient, airflow: AirflowApi, stack: LocalStack
) -> None:
    run = start_program("import time; time.sleep(900)")
    with task_instances_of(airflow_database_url(stack.settings)) as connection:
        running = "SELECT 1 FROM task_instance WHERE run_id = %s AND task_id = %s AND state = 'running'"

        def begins() -> bool:
            found = connection.execute(running, (run.run_id, WAIT)).fetchone()
            connection.commit()
            return found is not None

        wait_until(begins, "the wait begins", seconds=240, poll_seconds=0.02)

        connection.execute("LOCK TABLE task_instance IN ACCESS EXCLUSIVE MODE")
        time.sleep(HELD_SECONDS)  # the time that it is held is what is tested

    run.wait_for_task(WAIT, "deferred")
    run.wait_until_watched(WAIT)
    assert run.failures(WAIT) == 0
    job = training.get_job(run.xcom("submit"))
    assert job.state in (JobState.QUEUED, JobState.PREPARING, JobState.RUNNING)
