"""What a callback of Airflow is told of a task's job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from container_training.callbacks import job_report
from container_training.operators.image import BuildImageOperator
from container_training.operators.results import CollectTrainingResultsOperator
from container_training.sensors.training import TrainingJobSensor
from container_training.work.results.job_report import JobReport
from tests.support.fakes.fake_bucket import FakeBucket
from tests.support.fakes.fake_service import FakeService, make_job
from training_api.states import JobState

JOB = "http://airflow.test/training/jobs/digits_1?conn_id=training_default"
RECORD = "http://training.test:8470/v1/projects/demo/jobs/digits_1"
LOG = "http://training.test:8470/logs/projects/demo/jobs/digits_1"
FOLDER = "http://objects.test:9023/storage/v1/b/bucket/o?prefix=jobs%2Fdigits_1%2F"


@pytest.fixture(autouse=True)
def object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://objects.test:9023/")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.test/")


def make_sensor() -> TrainingJobSensor:
    return TrainingJobSensor(task_id="wait", job_id="digits_1")


def test_a_callback_is_told_of_the_job_its_state_its_reason_and_where_to_look(
    service: FakeService, context: Any
) -> None:
    service.add(make_job(state=JobState.FAILED, error_message="The replica master 0 ran out-of-memory."))
    task = make_sensor()

    with pytest.raises(AirflowFailException) as failed:
        task.execute(context)

    told = job_report({"ti": SimpleNamespace(task=task), "exception": failed.value})
    assert told == JobReport(
        job_id="digits_1",
        state="FAILED",
        reason="The replica master 0 ran out-of-memory.",
        job_dir="gs://bucket/jobs/digits_1",
        page_url=JOB,
        record_url=RECORD,
        log_url=LOG,
        folder_url=FOLDER,
    )
    assert "digits_1" in str(failed.value)
    assert "ran out-of-memory" in str(failed.value)


def test_a_task_that_failed_for_another_reason_says_that_one(
    service: FakeService, bucket: FakeBucket, context: Any
) -> None:
    service.add(make_job(state=JobState.SUCCEEDED))
    task = CollectTrainingResultsOperator(task_id="collect", job_id="digits_1")

    with pytest.raises(AirflowFailException) as failed:
        task.execute(context)

    told = job_report({"ti": SimpleNamespace(task=task), "exception": failed.value})
    assert told is not None
    assert (told.state, told.reason) == ("SUCCEEDED", str(failed.value))
    assert "metrics.json" in told.reason


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"ti": SimpleNamespace()},
        {"ti": SimpleNamespace(task=BuildImageOperator(task_id="b", context_dir=".", image="h/i"))},
        {"ti": SimpleNamespace(task=make_sensor())},
    ],
    ids=["no task instance", "no task", "not about a job", "no job seen"],
)
def test_a_callback_without_a_job_is_told_of_none(context: Any) -> None:
    assert job_report(context) is None
