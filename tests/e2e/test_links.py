"""The buttons of tasks in Airflow's server, during a deferred wait and at the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from tests.support import web
from training_api.clients.training import TrainingClient
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(900)]

WAIT = "wait_until_finished"
BUTTONS = ["Job", "Job log", "Model folder"]


def test_a_jobs_buttons_are_there_while_it_is_waited_for_and_lead_somewhere(
    start_program: Callable[[str], Run], training: TrainingClient, stack: LocalStack
) -> None:
    run = start_program("import time; print('the trainer is up', flush=True); time.sleep(900)")
    run.wait_for_task(WAIT, "deferred")
    job_id = run.xcom("submit")
    wait_until(lambda: "the trainer is up" in run.log(WAIT), "the trainer's line")

    while_deferred = {task: run.links(task) for task in ("submit", WAIT, "collect")}
    pages = {name: web.get(url or "") for name, url in while_deferred[WAIT].items()}
    training.cancel_job(job_id)
    run.wait_for_end()

    assert sorted(while_deferred[WAIT]) == BUTTONS
    page = f"{stack.settings.airflow_url}/training/jobs/{job_id}?conn_id=training_default"
    assert while_deferred[WAIT]["Job"] == page
    assert while_deferred["submit"] == while_deferred[WAIT]
    # Nothing is known of a job before the task began: a button that cannot be pressed.
    assert while_deferred["collect"] == dict.fromkeys(BUTTONS)
    # The job's page is Airflow's own, and so for those who are logged in.
    found = {name: answer.status_code for name, answer in pages.items()}
    assert found == {"Job": 401, "Job log": 200, "Model folder": 200}
    assert "master-replica-0: the trainer is up" in pages["Job log"].text
    # The wait has failed by now, in a process that never asked for the job.
    assert training.get_job(job_id).state is JobState.CANCELLED
    assert run.links(WAIT) == while_deferred[WAIT]


def test_a_task_that_failed_on_its_jobs_results_has_the_buttons_too(
    start_program: Callable[[str], Run],
) -> None:
    run = start_program("print('no metrics')")

    assert run.wait_for_end() == "failed"

    assert run.states()["collect"] == "failed"
    assert run.links("collect") == run.links("submit")
    assert None not in run.links("collect").values()
