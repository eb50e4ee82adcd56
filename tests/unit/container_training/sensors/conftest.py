"""What tests of waits share."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.sensors.training import TrainingJobSensor

OWN_LABELS = {"airflow-dag": "train_digits", "airflow-run": "manual__1", "airflow-owner": "token"}


def make_sensor(**changes: Any) -> TrainingJobSensor:
    return TrainingJobSensor(**{"task_id": "wait", "job_id": "digits_1", **changes})


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return acts, one of which happens at each pause of a poking sensor instead of sleeping."""
    acts: list[Any] = []
    monkeypatch.setattr("airflow.sdk.bases.sensor.time.sleep", lambda _: acts.pop(0)())
    return acts
