"""What a tuning job searches for: the request's words, and the API's defaults for the rest."""

from __future__ import annotations

import pytest

from training_api.dialects.ml_v1.resources import Goal, HyperparameterSpec, SearchAlgorithm
from training_api.job.tuning.study_spec import DEFAULT_METRIC_TAG, StudySpec


def test_a_search_that_says_nothing_gets_the_defaults_of_the_api() -> None:
    search = HyperparameterSpec()

    assert StudySpec.from_wire(search) == StudySpec(
        search=search,
        goal=Goal.MAXIMIZE,
        metric_tag=DEFAULT_METRIC_TAG,
        max_trials=1,
        max_parallel_trials=1,
        max_failed_trials=0,
        algorithm=SearchAlgorithm.ALGORITHM_UNSPECIFIED,
        stops_early=False,
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
        }
    )

    assert StudySpec.from_wire(search) == StudySpec(
        search=search,
        goal=Goal.MINIMIZE,
        metric_tag="loss",
        max_trials=20,
        max_parallel_trials=4,
        max_failed_trials=3,
        algorithm=SearchAlgorithm.RANDOM_SEARCH,
        stops_early=True,
        resume_job_id="tune_0",
    )


@pytest.mark.parametrize("goal", [None, "GOAL_TYPE_UNSPECIFIED", "MAXIMIZE"])
def test_more_is_better_unless_the_search_says_otherwise(goal: str | None) -> None:
    assert StudySpec.from_wire(HyperparameterSpec.model_validate({"goal": goal})).goal is Goal.MAXIMIZE


def test_zero_is_an_unset_number() -> None:
    search = HyperparameterSpec.model_validate({"maxTrials": 0, "maxParallelTrials": "0"})

    study = StudySpec.from_wire(search)

    assert (study.max_trials, study.max_parallel_trials) == (1, 1)
