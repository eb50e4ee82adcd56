"""What Airflow's callbacks get of a task's job: a whole run with mapped tasks, live service."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from container_engines.memory.engine import Behaviour
from container_training.callbacks import job_report
from container_training.operators.training import SubmitTrainingJobOperator
from container_training.sensors.training import TrainingJobSensor
from container_training.work.results.job_report import JobReport
from tests.integration.live_service import IMAGE, LiveService, run_service
from tests.support.speed import drawn_out
from training_api.job.image_ref import parse_image_ref

FAILING, ENDLESS = "registry.test/demo-project/failing:1", "registry.test/demo-project/endless:1"

Told = list[tuple[str, str, int, JobReport | None]]


@pytest.fixture
def passing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveService]:
    """A service in which time passes; one image's jobs end well, one's do not, one's never end."""
    with run_service(tmp_path, Behaviour(run_seconds=1.0)) as service:
        service.engine.add_image(parse_image_ref(FAILING), Behaviour(run_seconds=1.0, exit_code=3))
        service.engine.add_image(parse_image_ref(ENDLESS), Behaviour(run_seconds=10**9))
        connection = {
            "conn_type": "container_training",
            "host": service.endpoint,
            "extra": {"project": "demo-project"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
        done = threading.Event()

        def pass_time() -> None:
            while not done.wait(0.2):
                service.engine.advance(1.0)

        clock = threading.Thread(target=pass_time)
        clock.start()
        yield service
        done.set()
        clock.join()


def listeners(told: Told) -> dict[str, Any]:
    """Return the three callbacks of a task; each notes what it is told."""

    def note(kind: str) -> Callable[[Any], None]:
        def callback(context: Any) -> None:
            ti = context["ti"]
            told.append((kind, ti.task_id, ti.map_index, job_report(context)))

        return callback

    return {f"on_{kind}_callback": note(kind) for kind in ("success", "failure", "retry")}


def test_callbacks_of_mapped_tasks_are_told_of_their_own_job(
    passing: LiveService, register_dag: Callable[[DAG], DAG]
) -> None:
    told: Told = []
    with DAG("callbacks_of_mapped_tasks", schedule=None, default_args=listeners(told)) as dag:
        submit = SubmitTrainingJobOperator.partial(task_id="submit", job_dir="gs://bucket/{job_id}").expand(
            image=[IMAGE, FAILING]
        )
        TrainingJobSensor.partial(task_id="finished").expand(job_id=submit.output)

    register_dag(dag).test()

    reports = {(kind, task_id, index): report for kind, task_id, index, report in told}
    assert set(reports) == {
        ("success", "submit", 0),
        ("success", "submit", 1),
        ("success", "finished", 0),
        ("failure", "finished", 1),
    }
    good, bad = reports["success", "finished", 0], reports["failure", "finished", 1]
    assert good is not None
    assert bad is not None
    assert (good.state, good.reason) == ("SUCCEEDED", "")
    assert (bad.state, bad.reason) == (
        "FAILED",
        "The replica master 0 exited with a non-zero status of 3.",
    )
    assert bad.page_url.endswith(f"/training/jobs/{bad.job_id}?conn_id=training_default")
    assert bad.record_url == f"{passing.endpoint}/v1/projects/demo-project/jobs/{bad.job_id}"
    assert bad.log_url == f"{passing.endpoint}/logs/projects/demo-project/jobs/{bad.job_id}"
    assert bad.job_dir == f"gs://bucket/{bad.job_id}"
    for index, report in enumerate((good, bad)):
        submitted = reports["success", "submit", index]
        assert submitted is not None
        assert submitted.job_id == report.job_id


@pytest.mark.extended
def test_a_try_that_ran_out_of_time_is_told_of_with_its_job(
    passing: LiveService, register_dag: Callable[[DAG], DAG]
) -> None:
    told: Told = []
    # The sensor must have deferred before: it polls for a quarter of the time.
    limit = round(drawn_out(6))
    with DAG("callbacks_of_a_retry", schedule=None, default_args=listeners(told)) as dag:
        submit = SubmitTrainingJobOperator(task_id="submit", image=ENDLESS)
        TrainingJobSensor(
            task_id="finished",
            job_id=submit.output,
            execution_timeout=timedelta(seconds=limit),
            retries=1,
            retry_delay=timedelta(0),
        )

    register_dag(dag).test()

    (job_id,) = {report.job_id for _, _, _, report in told if report}
    ends = [(kind, report) for kind, task_id, _, report in told if task_id == "finished"]
    assert [kind for kind, _ in ends] == ["retry", "failure"]
    for _, report in ends:
        assert report is not None
        assert report.state in ("QUEUED", "PREPARING", "RUNNING")
        assert f"job '{job_id}' was not 'finished' within timeout={limit} s" in report.reason
