"""Tuning jobs as the service answers them, in the wire's own form."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.support.fakes.fake_service import EPOCH, make_job
from training_api.dialects.ml_v1.resources import Job
from training_api.states import JobState
from training_api.wire import format_timestamp

SEARCH: dict[str, Any] = {
    "goal": "MAXIMIZE",
    "hyperparameterMetricTag": "accuracy",
    "maxTrials": 50,
    "maxParallelTrials": 4,
    "params": [
        {
            "parameterName": "lr",
            "type": "DOUBLE",
            "minValue": 0.0001,
            "maxValue": 0.1,
            "scaleType": "UNIT_LOG_SCALE",
        },
        {"parameterName": "units", "type": "INTEGER", "minValue": 16, "maxValue": 256},
        {"parameterName": "optimizer", "type": "CATEGORICAL", "categoricalValues": ["adam", "sgd"]},
    ],
}


def make_trial(
    number: int,
    objective: float | str | None,
    *,
    state: str = "SUCCEEDED",
    start: float = 0.0,
    seconds: float | None = 10.0,
    **changes: Any,
) -> dict[str, Any]:
    """Return one trial; ``seconds=None``: it still runs."""
    trial: dict[str, Any] = {
        "trialId": str(number),
        "hyperparameters": {"lr": f"0.0{number}", "units": "64", "optimizer": "adam"},
        "startTime": format_timestamp(EPOCH + timedelta(seconds=start)),
        "state": state,
        **changes,
    }
    if seconds is not None:
        trial["endTime"] = format_timestamp(EPOCH + timedelta(seconds=start + seconds))
    if objective is not None:
        trial["finalMetric"] = {"trainingStep": "30", "objectiveValue": objective}
    return trial


def make_tuning_job(*trials: dict[str, Any], **changes: Any) -> Job:
    """
    Return a RUNNING job with ``trials``.

    ``changes`` are fields of ``Job``, or of the search under ``search``.
    """
    search = {**SEARCH, **changes.pop("search", {})}
    fields: dict[str, Any] = {
        "state": JobState.RUNNING,
        "start_time": EPOCH,
        "training_input": {
            "region": "us-central1",
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "masterConfig": {"imageUri": "127.0.0.1:5000/demo/digits:1"},
            "jobDir": "gs://bucket/jobs/digits_1",
            "hyperparameters": search,
        },
        "training_output": {
            "isHyperparameterTuningJob": True,
            "hyperparameterMetricTag": search.get("hyperparameterMetricTag"),
            "completedTrialCount": str(sum(trial["state"] == "SUCCEEDED" for trial in trials)),
            "trials": list(trials),
        },
    }
    return make_job(**(fields | changes))
