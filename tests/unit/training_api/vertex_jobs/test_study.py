"""The search of a job as a studySpec."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.described_jobs import make_job
from training_api.errors import InvalidJobSpec
from training_api.vertex_jobs.options import NO_OPTIONS, VertexOptions
from training_api.vertex_jobs.writer import VertexRequest, vertex_request
from training_service.api.vertex_v1.canonical import canonical

PARAM = {"parameterName": "x", "type": "DOUBLE", "minValue": 0, "maxValue": 1}
PATH = "trainingInput.hyperparameters"


def written(options: VertexOptions = NO_OPTIONS, **search: Any) -> VertexRequest:
    return vertex_request(make_job(hyperparameters={"params": [PARAM], **search}), options)


def broken(options: VertexOptions = NO_OPTIONS, **search: Any) -> dict[str, str]:
    with pytest.raises(InvalidJobSpec) as caught:
        written(options, **search)
    return {each.field: each.description for each in caught.value.violations}


def test_the_defaults_of_ml_v1_are_written_out() -> None:
    request = written()

    assert request.collection == "hyperparameterTuningJobs"
    body = {**request.body}
    assert body.pop("trialJobSpec")["workerPoolSpecs"]
    assert body == {
        "displayName": "train_1",
        "studySpec": {
            "metrics": [{"metricId": "training/hptuning/metric", "goal": "MAXIMIZE"}],
            "parameters": [{"parameterId": "x", "doubleValueSpec": {"minValue": 0.0, "maxValue": 1.0}}],
        },
        "maxTrialCount": 1,
        "parallelTrialCount": 1,
    }


def test_a_search_is_written_in_the_words_of_vertex_ai() -> None:
    params = [
        {
            "parameterName": "i",
            "type": "INTEGER",
            "minValue": 1,
            "maxValue": 8,
            "scaleType": "UNIT_LOG_SCALE",
        },
        {"parameterName": "c", "type": "CATEGORICAL", "categoricalValues": ["a", ""]},
        {"parameterName": "d", "type": "DISCRETE", "discreteValues": [0, 0.5], "scaleType": "NONE"},
    ]
    body = written(
        params=params,
        goal="MINIMIZE",
        algorithm="GRID_SEARCH",
        enableTrialEarlyStopping=True,
        hyperparameterMetricTag="loss",
        maxTrials=9,
        maxParallelTrials=20,
        maxFailedTrials=3,
    ).body

    assert body["studySpec"] == {
        "metrics": [{"metricId": "loss", "goal": "MINIMIZE"}],
        "parameters": [
            {
                "parameterId": "i",
                "integerValueSpec": {"minValue": "1", "maxValue": "8"},
                "scaleType": "UNIT_LOG_SCALE",
            },
            {"parameterId": "c", "categoricalValueSpec": {"values": ["a", ""]}},
            {"parameterId": "d", "discreteValueSpec": {"values": [0.0, 0.5]}},
        ],
        "algorithm": "GRID_SEARCH",
        "decayCurveStoppingSpec": {},
    }
    assert (body["maxTrialCount"], body["parallelTrialCount"], body["maxFailedTrialCount"]) == (9, 9, 3)
    assert canonical("HyperparameterTuningJob", body) == body


@pytest.mark.parametrize(
    ("search", "field"),
    [
        ({"resumePreviousJobId": "before"}, "resumePreviousJobId"),
        ({"hyperparameterMetricTag": "my loss"}, "hyperparameterMetricTag"),
        ({"params": [{**PARAM, "maxValue": 0}]}, "params[0]"),
        (
            {"params": [{"parameterName": "d", "type": "DISCRETE", "discreteValues": [1, 1 + 1e-12]}]},
            "params[0].discreteValueSpec.values[1]",
        ),
        ({"params": [{**PARAM, "maxValue": -1}]}, "params[0].maxValue"),
        ({"maxTrials": 100_000}, "maxTrials"),
    ],
)
def test_what_a_study_cannot_be_is_named(search: dict[str, Any], field: str) -> None:
    assert set(broken(**search)) == {f"{PATH}.{field}"}


def test_conditional_parameters_stand_below_their_parent() -> None:
    below = {"parentDiscreteValues": {"values": [1.0]}, "parameterSpec": {"parameterId": "y"}}
    body = written(VertexOptions(conditional_parameters={"x": [below]})).body

    assert body["studySpec"]["parameters"][0]["conditionalParameterSpecs"] == [below]
    assert set(broken(VertexOptions(conditional_parameters={"z": [below]}))) == {
        "vertex_options.conditional_parameters.z"
    }
