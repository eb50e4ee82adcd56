"""The search and the trials of a HyperparameterTuningJob, as ml.v1 has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from training_api.dialects.vertex_v1.tuning.parameters import VALUE_SPECS
from training_api.job.tuning.search_terms import ParameterKind
from training_api.states import JobState

#: discovery: Trial.state. One that is STOPPING still runs, and may still succeed.
_STATES: Mapping[str, JobState] = {
    "REQUESTED": JobState.QUEUED,
    "ACTIVE": JobState.RUNNING,
    "STOPPING": JobState.RUNNING,
    "SUCCEEDED": JobState.SUCCEEDED,
    "INFEASIBLE": JobState.FAILED,
}
_STOPPING = ("decayCurveStoppingSpec", "medianAutomatedStoppingSpec", "convexAutomatedStoppingSpec")


def read_search(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``hyperparameters`` of a tuning job, without conditional parameters."""
    study = resource.get("studySpec", {})
    metric = _metric(study)
    found = {
        "goal": metric.get("goal"),
        "hyperparameterMetricTag": metric.get("metricId"),
        "maxTrials": resource.get("maxTrialCount"),
        "maxParallelTrials": resource.get("parallelTrialCount"),
        "maxFailedTrials": resource.get("maxFailedTrialCount"),
        "algorithm": study.get("algorithm"),
        "enableTrialEarlyStopping": any(name in study for name in _STOPPING) or None,
        "params": [_param(kind, each) for kind, each in _kinds(study.get("parameters", []))],
    }
    return {name: value for name, value in found.items() if value is not None}


def read_trials(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``trainingOutput`` of a tuning job."""
    study, trials = resource.get("studySpec", {}), resource.get("trials", [])
    tag = _metric(study).get("metricId", "")
    kinds = dict(_kinds_by_name(study.get("parameters", [])))
    read = [_trial(each, tag, kinds) for each in trials]
    return {
        "isHyperparameterTuningJob": True,
        "hyperparameterMetricTag": tag,
        "completedTrialCount": sum(each["state"] is JobState.SUCCEEDED for each in read),
        **({"trials": read} if read else {}),
    }


def _metric(study: Mapping[str, Any]) -> Mapping[str, Any]:
    first: Mapping[str, Any] = next(iter(study.get("metrics", [])), {})
    return first


def _kinds(parameters: Iterable[Mapping[str, Any]]) -> Iterator[tuple[ParameterKind, Mapping[str, Any]]]:
    """Yield each parameter whose kind is known."""
    for each in parameters:
        for kind, name in VALUE_SPECS.items():
            if name in each:
                yield kind, each


def _kinds_by_name(parameters: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ParameterKind]]:
    """Yield name and kind of all parameters, those that depend on others included."""
    for kind, each in _kinds(parameters):
        yield each.get("parameterId", ""), kind
        below = (one.get("parameterSpec", {}) for one in each.get("conditionalParameterSpecs", []))
        yield from _kinds_by_name(below)


def _param(kind: ParameterKind, parameter: Mapping[str, Any]) -> dict[str, Any]:
    spec = parameter[VALUE_SPECS[kind]]
    scale = parameter.get("scaleType")
    found = {
        "parameterName": parameter.get("parameterId", ""),
        "type": kind.value,
        **({"scaleType": scale} if scale and scale != "SCALE_TYPE_UNSPECIFIED" else {}),
    }
    if kind is ParameterKind.CATEGORICAL:
        return {**found, "categoricalValues": spec.get("values", [])}
    if kind is ParameterKind.DISCRETE:
        return {**found, "discreteValues": spec.get("values", [])}
    # A bound that is 0 is absent in canonical JSON.
    return {**found, "minValue": spec.get("minValue", 0), "maxValue": spec.get("maxValue", 0)}


def _trial(trial: Mapping[str, Any], tag: str, kinds: Mapping[str, ParameterKind]) -> dict[str, Any]:
    given = {each["parameterId"]: each.get("value") for each in trial.get("parameters", [])}
    final = _measured(trial["finalMeasurement"], tag) if "finalMeasurement" in trial else None
    found = {
        "trialId": trial.get("id"),
        "state": _STATES.get(trial.get("state", ""), JobState.QUEUED),
        "hyperparameters": {name: _text(value, kinds.get(name)) for name, value in given.items()},
        "startTime": trial.get("startTime"),
        "endTime": trial.get("endTime"),
        "isTrialStoppedEarly": False,  # Vertex AI does not tell
        "finalMetric": final,
        "allMetrics": [_measured(each, tag) for each in trial.get("measurements", [])] or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _measured(measurement: Mapping[str, Any], tag: str) -> dict[str, Any]:
    """Return a measurement of the metric ``tag``, of which numbers that are 0 are absent."""
    metrics = measurement.get("metrics", [])
    values = [each.get("value", 0) for each in metrics if each.get("metricId", "") == tag]
    return {
        "trainingStep": measurement.get("stepCount", 0),
        **({"objectiveValue": values[0]} if values else {}),
    }


def _text(value: Any, kind: ParameterKind | None) -> str:
    """Return a parameter's value as trainers get it: only a DOUBLE always has a point."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        number = float(value)
        return str(int(number)) if kind is not ParameterKind.DOUBLE and number.is_integer() else repr(number)
    return str(value)
