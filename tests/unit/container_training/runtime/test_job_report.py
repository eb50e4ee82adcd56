"""What a connection says of a job, with addresses for people; it never fails."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from container_training.hooks.training import TrainingHook
from container_training.runtime.job_report import make_report, report_of
from container_training.work.job_pages import JobPlace
from container_training.work.results.job_report import JobReport
from tests.support.fakes.fake_service import make_job
from training_api.states import JobState


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "objects.test:9023")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.test/")


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> TrainingHook:
    connection = {"conn_type": "container_training", "host": "training.test", "extra": {"project": "demo"}}
    monkeypatch.setenv("AIRFLOW_CONN_MY_TRAINING", json.dumps(connection))
    return TrainingHook("my_training")


def test_a_job_is_reported_with_its_addresses(hook: TrainingHook) -> None:
    job = make_job(state=JobState.FAILED, error_message="out of memory")

    assert report_of(hook, job) == JobReport(
        job_id="digits_1",
        state="FAILED",
        reason="out of memory",
        job_dir="gs://bucket/jobs/digits_1",
        page_url="http://airflow.test/training/jobs/digits_1?conn_id=my_training",
        record_url="http://training.test/v1/projects/demo/jobs/digits_1",
        log_url="http://training.test/logs/projects/demo/jobs/digits_1",
        folder_url="http://objects.test:9023/storage/v1/b/bucket/o?prefix=jobs%2Fdigits_1%2F",
    )


def test_a_job_without_a_folder_has_no_address_of_one(hook: TrainingHook) -> None:
    report = report_of(hook, make_job(training_input=None))

    assert (report.job_dir, report.folder_url) == ("", "")
    assert report.page_url


def test_a_job_that_nobody_saw_has_no_addresses(hook: TrainingHook) -> None:
    assert make_report(
        hook, JobPlace(job_id="digits_1"), state=None, reason="no access", job_dir=""
    ) == JobReport(job_id="digits_1", reason="no access")


@pytest.mark.usefixtures("airflow_db")
@pytest.mark.parametrize("connection", [None, {"conn_type": "container_training", "host": "h"}])
def test_a_connection_that_is_gone_or_incomplete_costs_the_addresses_only(
    monkeypatch: pytest.MonkeyPatch, log_lines: Sequence[str], connection: dict[str, Any] | None
) -> None:
    if connection:
        monkeypatch.setenv("AIRFLOW_CONN_GONE", json.dumps(connection))

    report = make_report(
        TrainingHook("gone"), JobPlace(job_id="digits_1"), state="SUCCEEDED", reason="", job_dir="gs://b/j"
    )

    assert report == JobReport(job_id="digits_1", state="SUCCEEDED", job_dir="gs://b/j")
    assert any("no links" in line for line in log_lines)
