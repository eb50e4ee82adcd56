"""Google's operators for Vertex AI train real containers, under the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.stack import LocalStack
from tests.e2e.airflow_run import Run
from tests.support.bed.real_parts import PROJECT
from tests.support.run_id import current_run
from training_api.job.image_ref import ImageRef

pytestmark = [pytest.mark.docker, pytest.mark.e2e, pytest.mark.timeout(1200)]

DAGS = Path(__file__).parent / "vertex_dags" / "google_operators.py"
#: Each task imports Google's SDK, which takes ten seconds of a core.
PATIENCE_SECONDS = 480.0


@pytest.fixture(scope="module", autouse=True)
def dags(airflow: AirflowApi, extra_dags: Path, pushed_image: ImageRef, stack: LocalStack) -> Iterator[None]:
    """The DAGs, as long as this module's tests run: reading them takes as long as a task."""
    values = {
        "image": str(pushed_image),
        "project": PROJECT,
        "bucket": stack.settings.bucket,
        "tag": current_run().id,
    }
    text = DAGS.read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f'"{{{name}}}"', repr(value))
    file = extra_dags / DAGS.name
    file.write_text(text, "utf-8")
    yield
    file.unlink()


def logs_of_failed(run: Run) -> dict[str, str]:
    return {task: run.log(task) for task, state in run.states().items() if state == "failed"}


def test_custom_jobs_are_created_and_a_failure_has_its_text(airflow: AirflowApi) -> None:
    run = Run.start(airflow, "google_custom_jobs")
    run.wait_for_end(patience_seconds=PATIENCE_SECONDS)

    assert run.states() == {
        "create_sync": "success",
        "create_deferred": "success",
        "fail_sync": "failed",
        "fail_deferred": "failed",
    }
    assert "exited with a non-zero status of 7" in run.log("fail_sync")
    assert "trained in us-central1" not in run.log("create_sync")  # the log is the service's, not the task's


def test_training_pipelines_are_created_listed_and_deleted(airflow: AirflowApi) -> None:
    run = Run.start(airflow, "google_training_pipelines")

    assert run.wait_for_end(patience_seconds=PATIENCE_SECONDS) == "success", logs_of_failed(run)
    (listed,) = run.xcom("list")
    assert listed["state"] == 4  # PIPELINE_STATE_SUCCEEDED


def test_tuning_jobs_are_created_read_listed_and_deleted(airflow: AirflowApi) -> None:
    run = Run.start(airflow, "google_tuning_jobs")

    assert run.wait_for_end(patience_seconds=PATIENCE_SECONDS) == "success", logs_of_failed(run)
    trials = run.xcom("get")["trials"]
    assert [trial["state"] for trial in trials] == [4, 4]  # SUCCEEDED
    for trial in trials:
        (rate,), (metric,) = trial["parameters"], trial["final_measurement"]["metrics"]
        assert metric["metric_id"] == "accuracy"
        assert metric["value"] == pytest.approx(1 - rate["value"])
