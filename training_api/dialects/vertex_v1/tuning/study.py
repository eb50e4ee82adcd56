"""
The study of a HyperparameterTuningJob, and its rules. Pure.

Source of a rule, unless another is named: the discovery document's ``StudySpec``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from training_api.dialects.vertex_v1.tuning.parameters import CONDITIONAL, read_parameters
from training_api.job.tuning.bounds import MAX_TRIALS
from training_api.job.tuning.measurement import MAX_TAG_LENGTH
from training_api.job.tuning.search_terms import Goal, SearchAlgorithm, Selection, Stopping
from training_api.job.tuning.study_spec import StudySpec
from training_api.job.violations import Violations

PATH = "studySpec"
_ALGORITHMS = {"GRID_SEARCH": SearchAlgorithm.GRID, "RANDOM_SEARCH": SearchAlgorithm.RANDOM}
#: The rules of early stopping that there are, by their fields. They are a oneof: at most one is set.
_STOPPING = {
    "decayCurveStoppingSpec": Stopping.DECAY_CURVE,
    "medianAutomatedStoppingSpec": Stopping.MEDIAN,
}
_METRIC_ID = re.compile(rf"\S{{1,{MAX_TAG_LENGTH}}}")
_TIMES = "this service ends no study by time; leave it out, and cancel the job when its time is over"
#: Fields that are refused by name -> why, and the way out.
NOT_HERE: Mapping[str, str] = {
    "convexAutomatedStoppingSpec": (
        "this service has no convex stopping; set decayCurveStoppingSpec or medianAutomatedStoppingSpec instead"
    ),
    "observationNoise": "tuning jobs have none, it is Vizier's alone; leave it out",
    "studyStoppingConfig.shouldStopAsap": (
        "this service lets running trials end when a study has enough; leave it out"
    ),
    "studyStoppingConfig.minimumRuntimeConstraint": _TIMES,
    "studyStoppingConfig.maximumRuntimeConstraint": _TIMES,
    "studyStoppingConfig.maxDurationNoProgress": _TIMES,
}


def read_study(rules: Violations, request: Mapping[str, Any]) -> StudySpec:
    """
    Return the study of a HyperparameterTuningJob.

    What breaks a rule is recorded in ``rules``, and the study is then of no use.
    """
    study = request.get("studySpec", {})
    for path, why in NOT_HERE.items():
        parent, _, field = path.rpartition(".")
        # A message may be empty, and yet be set.
        if (study.get(parent, {}) if parent else study).get(field) not in (None, False):
            rules.add(f"{PATH}.{path}", why)
    algorithm = _ALGORITHMS.get(study.get("algorithm", ""), SearchAlgorithm.BAYESIAN)
    if algorithm is SearchAlgorithm.BAYESIAN:
        _check_independent(rules, study)
    metric_tag, goal = _metric(rules, study)
    ending = study.get("studyStoppingConfig", {})
    stopping = next((name for name in _STOPPING if name in study), "")
    trials = _count(rules, "maxTrialCount", request.get("maxTrialCount", 0), least=1)
    most = trials
    if "maxNumTrials" in ending:
        most = _count(rules, f"{PATH}.studyStoppingConfig.maxNumTrials", ending["maxNumTrials"])
    min_trials = _count(
        rules, f"{PATH}.studyStoppingConfig.minNumTrials", ending.get("minNumTrials", 0), least=0
    )
    if min_trials > min(most, trials) > 0:
        rules.add(
            f"{PATH}.studyStoppingConfig.minNumTrials",
            f"must be at most maxNumTrials and maxTrialCount, {min(most, trials)}; got {min_trials}",
        )
    return StudySpec(
        parameters=read_parameters(rules, study.get("parameters", []), algorithm),
        goal=goal,
        metric_tag=metric_tag,
        max_trials=min(trials, most),
        max_parallel_trials=_count(rules, "parallelTrialCount", request.get("parallelTrialCount", 0)),
        max_failed_trials=_count(
            rules, "maxFailedTrialCount", request.get("maxFailedTrialCount", 0), least=0
        ),
        min_trials=min_trials,
        max_trials_without_progress=_count(
            rules,
            f"{PATH}.studyStoppingConfig.maxNumTrialsNoProgress",
            ending.get("maxNumTrialsNoProgress", 0),
            least=1 if "maxNumTrialsNoProgress" in ending else 0,
        ),
        algorithm=algorithm,
        stopping=_STOPPING.get(stopping, Stopping.NONE),
        stops_by_seconds=study.get(stopping, {}).get("useElapsedDuration", False),
        selection=(
            Selection.BEST if study.get("measurementSelectionType") == "BEST_MEASUREMENT" else Selection.LAST
        ),
    )


def _check_independent(rules: Violations, study: Mapping[str, Any]) -> None:
    for place, parameter in enumerate(study.get("parameters", [])):
        if parameter.get(CONDITIONAL):
            rules.add(
                f"{PATH}.parameters[{place}].{CONDITIONAL}",
                "the Bayesian search of this service, the default, has no parameters that depend on others; set "
                f"{PATH}.algorithm to RANDOM_SEARCH or GRID_SEARCH, or run a tuning job for each value of the parent",
            )


def _metric(rules: Violations, study: Mapping[str, Any]) -> tuple[str, Goal]:
    """Return the metric's name and goal; without a goal it is maximized."""
    metrics = study.get("metrics", [])
    path = f"{PATH}.metrics"
    if len(metrics) != 1:
        rules.add(
            path,
            f"must be one metric, as this service weighs no metrics against each other; got {len(metrics)}",
        )
        return "", Goal.MAXIMIZE
    (metric,) = metrics
    name = metric.get("metricId", "")
    if not (_METRIC_ID.fullmatch(name) and name.isprintable()):
        rules.add(
            f"{path}[0].metricId",
            f"is required, and must be at most {MAX_TAG_LENGTH} printable characters without spaces; "
            f"got {name[:100]!r}",
        )
    if "safetyConfig" in metric:
        rules.add(
            f"{path}[0].safetyConfig",
            "this service searches without bounds of safety; leave it out, and have the trainer fail where it must",
        )
    return name, Goal.MINIMIZE if metric.get("goal") == "MINIMIZE" else Goal.MAXIMIZE


def _count(rules: Violations, path: str, count: int, *, least: int = 1) -> int:
    if not least <= count <= MAX_TRIALS:
        required = "is required, and " if least and not count else ""
        rules.add(path, f"{required}must be from {least} to {MAX_TRIALS}; got {count}")
    return count
