"""The trials of a tuning job, as Vertex AI answers them."""

from __future__ import annotations

from typing import Any

from tests.support.fakes.described_jobs import answered, make_job
from training_api.dialects.ml_v1.resources import TrainingOutput
from training_api.states import JobState
from training_api.vertex_jobs.options import VertexOptions
from training_api.vertex_jobs.reader import job_of
from training_api.vertex_jobs.writer import vertex_request

PARAMS: list[dict[str, Any]] = [
    {"parameterName": "lr", "type": "DOUBLE", "minValue": 0, "maxValue": 2},
    {"parameterName": "units", "type": "INTEGER", "minValue": 1, "maxValue": 9},
    {"parameterName": "batch", "type": "DISCRETE", "discreteValues": [0.5, 16]},
    {"parameterName": "kind", "type": "CATEGORICAL", "categoricalValues": ["1", "b"]},
]
CONDITIONAL = {
    "kind": [
        {
            "parentCategoricalValues": {"values": ["b"]},
            "parameterSpec": {"parameterId": "momentum", "doubleValueSpec": {"maxValue": 1.0}},
        }
    ]
}


def output(*trials: dict[str, Any], params: list[dict[str, Any]] = PARAMS) -> TrainingOutput:
    search = {"params": params, "hyperparameterMetricTag": "loss"}
    options = VertexOptions(conditional_parameters=CONDITIONAL if params is PARAMS else {})
    request = vertex_request(make_job(hyperparameters=search), options)
    found = job_of(answered(request, **({"trials": list(trials)} if trials else {}))).training_output
    assert found is not None
    return found


def measured(value: float, step: int, metric: str = "loss") -> dict[str, Any]:
    return {
        "stepCount": str(step),
        "metrics": [{"metricId": "other", "value": 9}, {"metricId": metric, "value": value}],
    }


def test_a_tuning_job_without_trials_says_what_it_is() -> None:
    assert output().to_wire() == {
        "isHyperparameterTuningJob": True,
        "hyperparameterMetricTag": "loss",
        "completedTrialCount": "0",
    }


def test_a_trial_has_its_values_as_trainers_get_them() -> None:
    given = {"lr": 1, "units": 3.0, "batch": 16.0, "kind": "1", "momentum": 0.0}
    found = output({"id": "2", "parameters": [{"parameterId": k, "value": v} for k, v in given.items()]})

    assert found.trials is not None
    assert found.trials[0].hyperparameters == {
        "lr": "1.0",
        "units": "3",
        "batch": "16",
        "kind": "1",
        "momentum": "0.0",
    }


def test_a_trial_has_its_measurements_of_the_metric() -> None:
    found = output(
        {
            "id": "1",
            "state": "SUCCEEDED",
            "startTime": "2026-01-31T12:00:00Z",
            "endTime": "2026-01-31T12:01:00Z",
            "finalMeasurement": measured(0.25, 7),
            "measurements": [measured(0.5, 3), measured(0.25, 7), measured(1, 8, "another")],
        }
    )

    assert found.completed_trial_count == 1
    assert found.trials is not None
    assert found.trials[0].to_wire() == {
        "trialId": "1",
        "state": "SUCCEEDED",
        "hyperparameters": {},
        "startTime": "2026-01-31T12:00:00.000000Z",
        "endTime": "2026-01-31T12:01:00.000000Z",
        "isTrialStoppedEarly": False,
        "finalMetric": {"objectiveValue": 0.25, "trainingStep": "7"},
        "allMetrics": [
            {"objectiveValue": 0.5, "trainingStep": "3"},
            {"objectiveValue": 0.25, "trainingStep": "7"},
            {"trainingStep": "8"},
        ],
    }


def test_the_states_of_trials_are_those_of_jobs() -> None:
    words = ["REQUESTED", "ACTIVE", "STOPPING", "SUCCEEDED", "INFEASIBLE"]
    found = output(*({"id": str(place), "state": word} for place, word in enumerate(words)))

    assert found.trials is not None
    assert [each.state for each in found.trials] == [
        JobState.QUEUED,
        JobState.RUNNING,
        JobState.RUNNING,
        JobState.SUCCEEDED,
        JobState.FAILED,
    ]
