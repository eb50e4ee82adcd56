"""What a tuning job searches for: the request's words, and the API's defaults for the rest."""

from __future__ import annotations

import pytest

from training_api.dialects.ml_v1.resources import HyperparameterSpec
from training_api.dialects.ml_v1.search import study_from_wire
from training_api.job.tuning.search_terms import (
    Goal,
    ParameterKind,
    ScaleType,
    SearchAlgorithm,
    SearchParameter,
    Selection,
    Stopping,
)
from training_api.job.tuning.study_spec import DEFAULT_METRIC_TAG, StudySpec


def test_a_search_that_says_nothing_gets_the_defaults_of_the_api() -> None:
    search = HyperparameterSpec()

    assert study_from_wire(search) == StudySpec(
        parameters=(),
        goal=Goal.MAXIMIZE,
        metric_tag=DEFAULT_METRIC_TAG,
        max_trials=1,
        max_parallel_trials=1,
        max_failed_trials=0,
        algorithm=SearchAlgorithm.BAYESIAN,
        stopping=Stopping.NONE,
        selection=Selection.LAST,
        resume_job_id="",
    )


def test_what_a_search_says_is_kept() -> None:
    search = HyperparameterSpec.model_validate(
        {
            "goal": "MINIMIZE",
            "hyperparameterMetricTag": "loss",
            "maxTrials": 20,
            "maxParallelTrials": 4,
            "maxFailedTrials": 3,
            "algorithm": "RANDOM_SEARCH",
            "enableTrialEarlyStopping": True,
            "resumePreviousJobId": "tune_0",
            "params": [
                {
                    "parameterName": "rate",
                    "type": "DOUBLE",
                    "minValue": 0.5,
                    "maxValue": 2,
                    "scaleType": "UNIT_LOG_SCALE",
                },
                {"parameterName": "units", "type": "INTEGER", "maxValue": 256},
                {"parameterName": "kernel", "type": "CATEGORICAL", "categoricalValues": ["rbf", "linear"]},
                {
                    "parameterName": "depth",
                    "type": "DISCRETE",
                    "discreteValues": [1, 2.5],
                    "minValue": 7,
                    "scaleType": "UNIT_REVERSE_LOG_SCALE",
                },
            ],
        }
    )

    assert study_from_wire(search) == StudySpec(
        parameters=(
            SearchParameter(name="rate", kind=ParameterKind.DOUBLE, low=0.5, high=2.0, scale=ScaleType.LOG),
            SearchParameter(name="units", kind=ParameterKind.INTEGER, low=0.0, high=256.0),
            SearchParameter(name="kernel", kind=ParameterKind.CATEGORICAL, values=("rbf", "linear")),
            SearchParameter(
                name="depth",
                kind=ParameterKind.DISCRETE,
                values=(1.0, 2.5),
                scale=ScaleType.REVERSE_LOG,
            ),
        ),
        goal=Goal.MINIMIZE,
        metric_tag="loss",
        max_trials=20,
        max_parallel_trials=4,
        max_failed_trials=3,
        algorithm=SearchAlgorithm.RANDOM,
        stopping=Stopping.DECAY_CURVE,
        resume_job_id="tune_0",
    )


@pytest.mark.parametrize("goal", [None, "GOAL_TYPE_UNSPECIFIED", "MAXIMIZE"])
def test_more_is_better_unless_the_search_says_otherwise(goal: str | None) -> None:
    assert study_from_wire(HyperparameterSpec.model_validate({"goal": goal})).goal is Goal.MAXIMIZE


def test_zero_is_an_unset_number() -> None:
    search = HyperparameterSpec.model_validate({"maxTrials": 0, "maxParallelTrials": "0"})

    study = study_from_wire(search)

    assert (study.max_trials, study.max_parallel_trials) == (1, 1)
