"""The search of a request in the project's own terms. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from training_api.dialects.ml_v1 import resources
from training_api.dialects.ml_v1.resources import HyperparameterSpec, ParameterSpec, ParameterType
from training_api.job.tuning.search_terms import (
    Goal,
    ParameterKind,
    ScaleType,
    SearchAlgorithm,
    SearchParameter,
    Stopping,
)
from training_api.job.tuning.study_spec import DEFAULT_METRIC_TAG, StudySpec

_ALGORITHMS = {
    resources.SearchAlgorithm.GRID_SEARCH: SearchAlgorithm.GRID,
    resources.SearchAlgorithm.RANDOM_SEARCH: SearchAlgorithm.RANDOM,
}
_SCALES = {
    resources.ScaleType.UNIT_LINEAR_SCALE: ScaleType.LINEAR,
    resources.ScaleType.UNIT_LOG_SCALE: ScaleType.LOG,
    resources.ScaleType.UNIT_REVERSE_LOG_SCALE: ScaleType.REVERSE_LOG,
}


def study_from_wire(search: HyperparameterSpec) -> StudySpec:
    """
    Return the study of a request whose rules were checked, with the API's defaults.

    See ``hyperparameter_rules.py``. Source of the defaults: discovery, HyperparameterSpec; of the metric tag:
    'By default, "training/hptuning/metric" will be used'.
    """
    return StudySpec(
        parameters=tuple(_parameters(search.params or ())),
        goal=Goal.MINIMIZE if search.goal is resources.Goal.MINIMIZE else Goal.MAXIMIZE,
        metric_tag=search.hyperparameter_metric_tag or DEFAULT_METRIC_TAG,
        max_trials=search.max_trials or 1,
        max_parallel_trials=search.max_parallel_trials or 1,
        max_failed_trials=search.max_failed_trials or 0,
        algorithm=_ALGORITHMS.get(
            search.algorithm or resources.SearchAlgorithm.ALGORITHM_UNSPECIFIED, SearchAlgorithm.BAYESIAN
        ),
        stopping=Stopping.DECAY_CURVE if search.enable_trial_early_stopping else Stopping.NONE,
        resume_job_id=search.resume_previous_job_id or "",
    )


def _parameters(params: Iterable[ParameterSpec]) -> Iterable[SearchParameter]:
    """Yield the parameters; the rules refuse one without a type."""
    for each in params:
        if each.type not in (None, ParameterType.PARAMETER_TYPE_UNSPECIFIED):
            yield _parameter(each, ParameterKind(each.type.value))


def _parameter(wire: ParameterSpec, kind: ParameterKind) -> SearchParameter:
    values: tuple[str, ...] | tuple[float, ...] = ()
    low = high = 0.0
    if kind is ParameterKind.CATEGORICAL:
        values = tuple(wire.categorical_values or ())
    elif kind is ParameterKind.DISCRETE:
        values = tuple(float(value) for value in wire.discrete_values or ())
    else:
        low, high = float(wire.min_value or 0.0), float(wire.max_value or 0.0)
    return SearchParameter(
        name=wire.parameter_name or "",
        kind=kind,
        low=low,
        high=high,
        scale=_SCALES.get(wire.scale_type or resources.ScaleType.NONE, ScaleType.NONE),
        values=values,
    )
