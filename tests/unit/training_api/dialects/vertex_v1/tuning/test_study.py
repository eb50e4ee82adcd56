"""The study of a tuning job: what is read, and what is refused, by the path of the field."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.vertex_tuning_jobs import RATE, make_study, make_tuning_job
from training_api.dialects.vertex_v1.tuning.study import NOT_HERE, read_study
from training_api.job.tuning.search_terms import Condition, Goal, SearchAlgorithm, Selection, Stopping
from training_api.job.tuning.study_spec import StudySpec
from training_api.job.violations import Violations

LAYERS = {"parameterId": "layers", "integerValueSpec": {"minValue": "1", "maxValue": "3"}}


def read(**changes: Any) -> StudySpec:
    rules = Violations()
    study = read_study(rules, make_tuning_job(study=make_study(**changes)))
    assert rules.found == []
    return study


def broken(request: dict[str, Any]) -> dict[str, str]:
    rules = Violations()
    read_study(rules, request)
    return {each.field: each.description for each in rules.found}


def with_study(**changes: Any) -> dict[str, Any]:
    return make_tuning_job(study=make_study(**changes))


def test_a_study_that_says_little_is_bayesian_takes_the_last_measurement_and_stops_no_trial() -> None:
    study = read(metrics=[{"metricId": "accuracy"}])

    assert (study.goal, study.algorithm, study.stopping, study.selection) == (
        Goal.MAXIMIZE,
        SearchAlgorithm.BAYESIAN,
        Stopping.NONE,
        Selection.LAST,
    )


def test_goal_algorithm_and_selection_are_read() -> None:
    study = read(
        metrics=[{"metricId": "loss", "goal": "MINIMIZE"}],
        algorithm="RANDOM_SEARCH",
        measurementSelectionType="BEST_MEASUREMENT",
    )

    assert (study.metric_tag, study.goal, study.algorithm, study.selection) == (
        "loss",
        Goal.MINIMIZE,
        SearchAlgorithm.RANDOM,
        Selection.BEST,
    )


KIND = {
    "parameterId": "kind",
    "categoricalValueSpec": {"values": ["a", "b"]},
    "conditionalParameterSpecs": [{"parentCategoricalValues": {"values": ["a"]}, "parameterSpec": RATE}],
}


@pytest.mark.parametrize("algorithm", [{}, {"algorithm": "ALGORITHM_UNSPECIFIED"}])
def test_the_bayesian_search_refuses_conditional_parameters_by_name(algorithm: dict[str, Any]) -> None:
    found = broken(with_study(parameters=[LAYERS, KIND], **algorithm))

    assert {*found} == {"studySpec.parameters[1].conditionalParameterSpecs"}
    assert "set studySpec.algorithm to RANDOM_SEARCH or GRID_SEARCH" in found.popitem()[1]


def test_a_random_search_has_conditional_parameters() -> None:
    study = read(parameters=[LAYERS, KIND], algorithm="RANDOM_SEARCH")

    assert [each.name for each in study.parameters] == ["layers", "kind", "rate"]
    assert study.parameters[2].condition == Condition(parent="kind", values=("a",))


@pytest.mark.parametrize(
    ("field", "spec", "stopping", "by_seconds"),
    [
        ("decayCurveStoppingSpec", {}, Stopping.DECAY_CURVE, False),
        ("medianAutomatedStoppingSpec", {}, Stopping.MEDIAN, False),
        ("medianAutomatedStoppingSpec", {"useElapsedDuration": True}, Stopping.MEDIAN, True),
    ],
)
def test_the_rule_of_early_stopping_is_read(
    field: str, spec: dict[str, Any], stopping: Stopping, by_seconds: bool
) -> None:
    study = read(**{field: spec})

    assert (study.stopping, study.stops_by_seconds) == (stopping, by_seconds)


def test_a_study_ends_by_counts_of_trials() -> None:
    ending = {"minNumTrials": 2, "maxNumTrials": 3, "maxNumTrialsNoProgress": 1, "shouldStopAsap": False}
    study = read(studyStoppingConfig=ending)

    assert (study.min_trials, study.max_trials, study.max_trials_without_progress) == (2, 3, 1)
    assert read(studyStoppingConfig={"maxNumTrials": 9}).max_trials == 4


@pytest.mark.parametrize("path", NOT_HERE)
def test_what_this_service_has_not_is_refused_by_name(path: str) -> None:
    parent, _, field = path.rpartition(".")
    given = {field: True} if field == "shouldStopAsap" else {field: {}}

    assert broken(with_study(**({parent: given} if parent else given))) == {
        f"studySpec.{path}": NOT_HERE[path]
    }


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({"maxTrialCount": 0}, "maxTrialCount", "is required, and must be from 1 to 1000; got 0"),
        ({"maxTrialCount": 1001}, "maxTrialCount", "must be from 1 to 1000; got 1001"),
        ({"parallelTrialCount": -1}, "parallelTrialCount", "must be from 1 to 1000; got -1"),
        ({"maxFailedTrialCount": -1}, "maxFailedTrialCount", "must be from 0 to 1000; got -1"),
    ],
)
def test_counts_have_bounds(changes: dict[str, Any], path: str, said: str) -> None:
    assert broken(make_tuning_job(**changes)) == {path: said}


@pytest.mark.parametrize(
    ("ending", "field", "said"),
    [
        ({"maxNumTrials": 0}, "maxNumTrials", "is required, and must be from 1 to 1000; got 0"),
        ({"minNumTrials": 5}, "minNumTrials", "must be at most maxNumTrials and maxTrialCount, 4; got 5"),
        ({"maxNumTrialsNoProgress": -1}, "maxNumTrialsNoProgress", "must be from 1 to 1000; got -1"),
    ],
)
def test_conditions_of_the_end_have_bounds(ending: dict[str, Any], field: str, said: str) -> None:
    assert broken(with_study(studyStoppingConfig=ending)) == {f"studySpec.studyStoppingConfig.{field}": said}


@pytest.mark.parametrize(
    ("metrics", "path"),
    [
        ([], "metrics"),
        ([{"metricId": "a"}, {"metricId": "b"}], "metrics"),
        ([{"metricId": "a b"}], "metrics[0].metricId"),
        ([{}], "metrics[0].metricId"),
        ([{"metricId": "a" * 257}], "metrics[0].metricId"),
        ([{"metricId": "a", "safetyConfig": {}}], "metrics[0].safetyConfig"),
    ],
)
def test_there_is_one_metric_with_a_name(metrics: list[dict[str, Any]], path: str) -> None:
    assert [*broken(with_study(metrics=metrics))] == [f"studySpec.{path}"]
