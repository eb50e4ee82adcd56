"""What people do to a running task, and what fails, under the real scheduler."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.settings import Part
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run, wait_until
from tests.support.bed.real_parts import kill_program
from tests.support.speed import scaled
from training_api.clients.training import TrainingClient
from training_api.job.image_ref import ImageRef
from training_api.states import JobState

pytestmark = [pytest.mark.docker, pytest.mark.e2e]

DAG = "train_from_image"
WAIT = "wait_until_finished"
SLEEPS = "import time; time.sleep(900)"


def wait_for_line(run: Run, line: str) -> None:
    """Return once the job's line is in the task's log."""
    wait_until(lambda: line in run.log(WAIT), f"{line!r} is in the log")


def wait_for_job(training: TrainingClient, run: Run, state: JobState) -> None:
    job_id = run.xcom("submit")
    wait_until(lambda: training.get_job(job_id).state is state, f"job {job_id} is {state}")


@pytest.mark.extended
def test_marking_the_wait_as_failed_cancels_the_job(
    start_program: Callable[[str], Run], training: TrainingClient
) -> None:
    run = start_program(SLEEPS)
    run.wait_for_task(WAIT, "deferred")
    wait_for_job(training, run, JobState.RUNNING)
    run.wait_until_watched(WAIT)

    run.mark(WAIT, "failed")

    wait_for_job(training, run, JobState.CANCELLED)
    assert run.wait_for_end() == "failed"


@pytest.mark.extended
def test_clearing_the_wait_keeps_the_job_and_waits_anew(
    start_program: Callable[[str], Run], training: TrainingClient
) -> None:
    run = start_program(SLEEPS)
    run.wait_for_task(WAIT, "deferred")
    wait_for_job(training, run, JobState.RUNNING)
    run.wait_until_watched(WAIT)

    run.clear(WAIT)
    wait_until(lambda: run.tries(WAIT) == 2, "second try")
    run.wait_for_task(WAIT, "deferred")

    assert training.get_job(run.xcom("submit")).state is JobState.RUNNING
    training.cancel_job(run.xcom("submit"))
    assert run.wait_for_end() == "failed"
    assert "CANCELLED" in run.log(WAIT)
    # What the first line of a failed test says.
    with pytest.raises(AssertionError, match=rf"train_from_image: failed; {WAIT}: failed .*CANCELLED"):
        run.wait_for_success()


@pytest.mark.extended
def test_wait_outlives_the_service_and_says_so(
    start_program: Callable[[str], Run], stack: LocalStack
) -> None:
    # Longer than the wait takes until it is deferred: it looks for five seconds before.
    run = start_program(
        f"import time; [print('tick', i, flush=True) or time.sleep({scaled(1)}) for i in range(16)]"
    )
    run.wait_for_task(WAIT, "deferred")
    wait_for_line(run, "tick 2")

    kill_program(stack, Part.TRAINING.value)
    try:
        wait_for_line(run, "did not answer")
    finally:
        stack.up([Part.TRAINING])
    # collect fails, as this program writes no metrics; the wait is what counts here.
    run.wait_for_task(WAIT, "success")

    ticks = [line for line in run.log(WAIT).splitlines() if "tick" in line]
    assert len(ticks) == 16


def test_trainer_that_exits_3_fails_the_wait_at_once_with_its_message(
    start_program: Callable[[str], Run],
) -> None:
    run = start_program("raise SystemExit(3)")

    assert run.wait_for_end() == "failed"

    assert run.states()[WAIT] == "failed"
    assert run.failures(WAIT) == 1
    assert "The replica master 0 exited with a non-zero status of 3." in run.log(WAIT)


def test_trainer_that_writes_no_metrics_fails_the_collection_by_name(
    start_program: Callable[[str], Run],
) -> None:
    run = start_program("print('done')")

    assert run.wait_for_end() == "failed"

    assert run.states() == {"submit": "success", WAIT: "success", "collect": "failed"}
    assert run.tries("collect") == 1
    assert "ResultsMissing" in run.log("collect")
    assert "metrics.json" in run.log("collect")


def test_unknown_image_fails_the_wait_and_is_named(airflow: AirflowApi, pushed_image: ImageRef) -> None:
    absent = f"{pushed_image.host}/demo-project/absent:1"
    run = Run.start(airflow, DAG, {"image": absent})

    assert run.wait_for_end() == "failed"

    assert absent in run.log(WAIT)


def test_malformed_job_fails_the_submission_without_a_retry(airflow: AirflowApi) -> None:
    run = Run.start(airflow, DAG, {"image": "No Name"})

    assert run.wait_for_end() == "failed"

    assert run.tries("submit") == 1
    assert "InvalidJobSpec" in run.log("submit")
    assert "No Name" in run.log("submit")
