"""HyperparameterTuningJobs of Vertex AI, as the tests send them."""

from __future__ import annotations

from typing import Any

from tests.support.fakes.custom_jobs import make_pool

RATE = {
    "parameterId": "rate",
    "doubleValueSpec": {"minValue": 0.001, "maxValue": 1.0},
    "scaleType": "UNIT_LOG_SCALE",
}

#: A parameter with one that depends on it, on which a third one depends.
CONDITIONAL: dict[str, Any] = {
    "parameterId": "kind",
    "categoricalValueSpec": {"values": ["linear", "deep"]},
    "conditionalParameterSpecs": [
        {
            "parentCategoricalValues": {"values": ["deep"]},
            "parameterSpec": {
                "parameterId": "layers",
                "integerValueSpec": {"minValue": "1", "maxValue": "3"},
                "conditionalParameterSpecs": [
                    {
                        "parentIntValues": {"values": ["2", "3"]},
                        "parameterSpec": {"parameterId": "size", "discreteValueSpec": {"values": [0.5, 2.0]}},
                    }
                ],
            },
        }
    ],
}


def make_study(*parameters: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a StudySpec; ``changes`` are laid over it."""
    metric = {"metricId": "accuracy", "goal": "MAXIMIZE"}
    return {"metrics": [metric], "parameters": list(parameters) or [RATE], **changes}


def make_tuning_job(
    *pools: dict[str, Any], study: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """Return a HyperparameterTuningJob; ``changes`` are laid over it."""
    job = {
        "displayName": "search",
        "studySpec": study or make_study(),
        "maxTrialCount": 4,
        "parallelTrialCount": 2,
        "trialJobSpec": {"workerPoolSpecs": list(pools) or [make_pool()]},
    }
    return job | changes
