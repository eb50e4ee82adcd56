"""The listener in the API server: it cancels only what a person ended, and only this run's job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from container_training import listener
from container_training.core.states import JobState
from container_training.listener import cancel_job_of_run, on_task_instance_failed

from .fake_service import FakeService, error, make_job

LABELS = {"airflow-dag": "dag", "airflow-run": "run", "airflow-owner": "token"}


def make_task_instance(**changes: Any) -> SimpleNamespace:
    fields = {"job_id": "digits_1", "training_conn_id": "training_default", "cancel_on_kill": True}
    rendered = SimpleNamespace(rendered_fields=fields | changes.pop("rendered", {}))
    values: dict[str, Any] = {
        "operator": "TrainingJobSensor",
        "dag_id": "dag",
        "run_id": "run",
        "rendered_task_instance_fields": rendered,
    }
    return SimpleNamespace(**(values | changes))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """Threads that would have been started."""
    thread = mock.Mock()
    monkeypatch.setattr(listener.threading, "Thread", thread)
    return thread


def test_wait_that_a_person_marked_as_failed_has_its_job_cancelled(started: mock.Mock) -> None:
    on_task_instance_failed(previous_state=None, task_instance=make_task_instance(), error="marked")

    assert started.call_args.kwargs["args"] == ("digits_1", "training_default", "dag", "run")
    started.return_value.start.assert_called_once_with()


@pytest.mark.parametrize(
    ("previous_state", "changes"),
    [
        ("running", {}),  # it failed by itself
        (None, {"operator": "PythonOperator"}),
        (None, {"rendered_task_instance_fields": None}),  # it never began
        (None, {"rendered": {"cancel_on_kill": False}}),
    ],
)
def test_other_failures_are_left_alone(
    started: mock.Mock, previous_state: str | None, changes: dict[str, Any]
) -> None:
    on_task_instance_failed(
        previous_state=previous_state, task_instance=make_task_instance(**changes), error="x"
    )

    started.assert_not_called()


@pytest.mark.parametrize(
    ("labels", "state", "expected"),
    [
        (LABELS, JobState.RUNNING, 1),
        (LABELS, JobState.SUCCEEDED, 0),
        (LABELS | {"airflow-run": "another"}, JobState.RUNNING, 0),
        ({}, JobState.RUNNING, 0),
    ],
)
def test_only_a_live_job_of_this_run_is_cancelled(
    service: FakeService, labels: dict[str, str], state: JobState, expected: int
) -> None:
    service.add(make_job(state=state, labels=labels))

    cancel_job_of_run("digits_1", "training_default", "dag", "run")

    assert service.count("POST", ":cancel") == expected


def test_service_that_refuses_is_logged(service: FakeService, caplog: pytest.LogCaptureFixture) -> None:
    service.faults = [error(403, "PERMISSION_DENIED", "try later")]

    cancel_job_of_run("digits_1", "training_default", "dag", "run")

    assert "job digits_1 may go on" in caplog.text
    assert "try later" in caplog.text
