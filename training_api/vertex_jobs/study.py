"""The search of a job as a ``studySpec``. Pure."""

from __future__ import annotations

from typing import Any

from training_api.dialects.ml_v1.resources import HyperparameterSpec, Job, ParameterSpec, ScaleType
from training_api.dialects.ml_v1.rules.hyperparameter_rules import PATH, check_hyperparameters
from training_api.dialects.ml_v1.search import study_from_wire
from training_api.dialects.vertex_v1.tuning import parameters as vertex_parameters
from training_api.dialects.vertex_v1.tuning.parameters import VALUE_SPECS, read_parameters
from training_api.job.tuning.search_terms import ParameterKind, SearchAlgorithm, SearchParameter
from training_api.job.tuning.study_spec import StudySpec
from training_api.job.violations import Violations
from training_api.vertex_jobs.options import PATH as OPTIONS
from training_api.vertex_jobs.options import VertexOptions

_ALGORITHMS = {SearchAlgorithm.GRID: "GRID_SEARCH", SearchAlgorithm.RANDOM: "RANDOM_SEARCH"}


def write_study(
    rules: Violations, job: Job, search: HyperparameterSpec, options: VertexOptions
) -> dict[str, Any]:
    """
    Return ``studySpec`` and the counts of trials, as a HyperparameterTuningJob has them.

    The defaults of ml.v1 are written out: Vertex AI has none. What breaks a rule is recorded in ``rules``.
    """
    before = len(rules.found)
    check_hyperparameters(rules, job, search)
    study = study_from_wire(search)
    if study.resume_job_id:
        rules.add(
            f"{PATH}.resumePreviousJobId",
            "Vertex AI's tuning jobs know of no other's trials; leave it out, and narrow the parameters to where "
            f"the earlier job found good values; got {study.resume_job_id!r}",
        )
    if any(character.isspace() for character in study.metric_tag):
        rules.add(
            f"{PATH}.hyperparameterMetricTag",
            f"must have no white space on Vertex AI; got {study.metric_tag!r}: rename the metric, here and in the "
            "trainer",
        )
    if len(rules.found) > before:
        return {}  # parameters that break ml.v1's rules cannot be written
    params = [
        _parameter(wire, each) for wire, each in zip(search.params or (), study.parameters, strict=True)
    ]
    _check_parameters(rules, params, study)
    _add_conditional(rules, params, options)
    failed = {"maxFailedTrialCount": study.max_failed_trials} if study.max_failed_trials else {}
    return {
        "studySpec": _study_spec(study, params),
        "maxTrialCount": study.max_trials,
        # More trials in parallel than there are limit nothing; Vertex AI may count them all the same.
        "parallelTrialCount": min(study.max_parallel_trials, study.max_trials),
        **failed,
    }


def _study_spec(study: StudySpec, params: list[dict[str, Any]]) -> dict[str, Any]:
    algorithm = _ALGORITHMS.get(study.algorithm)
    return {
        "metrics": [{"metricId": study.metric_tag, "goal": study.goal.value}],
        "parameters": params,
        **({"algorithm": algorithm} if algorithm else {}),
        # The nearest rule: that ml.v1's is this one is [unverified].
        **({"decayCurveStoppingSpec": {}} if study.stops_early else {}),
    }


def _parameter(wire: ParameterSpec, parameter: SearchParameter) -> dict[str, Any]:
    scale = wire.scale_type or ScaleType.NONE
    return {
        "parameterId": parameter.name,
        VALUE_SPECS[parameter.kind]: _values(parameter),
        **({"scaleType": scale.value} if scale is not ScaleType.NONE else {}),
    }


def _values(parameter: SearchParameter) -> dict[str, Any]:
    if parameter.values:
        return {"values": list(parameter.values)}
    if parameter.kind is ParameterKind.INTEGER:  # int64 is text on the wire
        return {"minValue": str(int(parameter.low)), "maxValue": str(int(parameter.high))}
    return {"minValue": parameter.low, "maxValue": parameter.high}


def _check_parameters(rules: Violations, params: list[dict[str, Any]], study: StudySpec) -> None:
    """Record what Vertex AI's own rules refuse, by the paths of ml.v1."""
    found = Violations()
    read_parameters(found, params, study.algorithm)
    for each in found.found:
        rules.add(f"{PATH}.params{each.field.removeprefix(vertex_parameters.PATH)}", each.description)
    for place, parameter in enumerate(study.parameters):
        if not parameter.values and parameter.low == parameter.high == 0:
            rules.add(
                f"{PATH}.params[{place}]",
                "is 0 in every trial, which Vertex AI cannot tell from no bounds at all; leave it out, and add "
                f"--{parameter.name}=0 to the arguments",
            )


def _add_conditional(rules: Violations, params: list[dict[str, Any]], options: VertexOptions) -> None:
    by_name = {each["parameterId"]: each for each in params}
    for name, specs in options.conditional_parameters.items():
        if name in by_name:
            by_name[name]["conditionalParameterSpecs"] = [dict(each) for each in specs]
        else:
            rules.add(
                f"{OPTIONS}.conditional_parameters.{name}",
                f"must be below one of the search's parameters: {', '.join(by_name)}",
            )
