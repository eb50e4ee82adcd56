"""The groups of tasks around jobs: their retries, and the default place of a job's output."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from container_training.runtime.job_group import job_bucket, job_group, own_folder


def task_in_group(default_args: dict[str, Any] | None, **arguments: Any) -> EmptyOperator:
    with DAG("d", schedule=None), job_group("train", default_args):
        return EmptyOperator(task_id="submit", **arguments)


def test_tasks_are_tried_three_times_unless_somebody_says_otherwise() -> None:
    task = task_in_group(None)

    assert (task.task_id, task.retries, task.retry_delay) == ("train.submit", 2, timedelta(seconds=10))
    assert task_in_group({"retries": 5}).retries == 5
    assert task_in_group({"retries": 5}, retries=0).retries == 0


def test_what_the_dag_says_wins_over_our_retries() -> None:
    with DAG("d", schedule=None, default_args={"retries": 7}), job_group("train", None):
        task = EmptyOperator(task_id="submit")

    assert (task.retries, task.retry_delay) == (7, timedelta(seconds=10))


def test_the_retries_of_the_deployment_win_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DEFAULT_TASK_RETRIES", "4")

    assert task_in_group(None).retry_delay == timedelta(seconds=300)


def test_what_else_the_group_says_is_kept() -> None:
    task = task_in_group({"owner": "vision"})

    assert (task.owner, task.retries) == ("vision", 2)


@pytest.mark.parametrize(
    ("extra", "folder"), [({"job_bucket": "gs://b/jobs"}, "gs://b/jobs/{job_id}"), ({}, "/{job_id}")]
)
def test_a_jobs_own_folder_is_in_the_folder_of_its_connection(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, str], folder: str
) -> None:
    connection = {"conn_type": "container_training", "host": "h", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_EU", json.dumps(connection))
    from airflow.sdk.execution_time.context import ConnectionAccessor

    task = task_in_group(None)

    rendered = task.render_template(own_folder("training_eu"), {"conn": ConnectionAccessor()})

    assert rendered == folder
    assert own_folder("training_eu").startswith(job_bucket("training_eu"))
