"""From what the service knows of a tuning job to the resource that clients read. Pure."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from google.protobuf.duration_pb2 import Duration

from training_api.dialects.vertex_v1.job_states import TRIAL_STATES
from training_api.dialects.vertex_v1.names import COLLECTIONS, job_name, trial_job_id
from training_api.job.dialect import ResourceKind
from training_api.job.job_spec import JobSpec
from training_api.job.project_number import project_number
from training_api.job.tuning.measurement import Report
from training_api.job.tuning.search_terms import ParameterKind, SearchParameter
from training_api.states import JobState
from training_api.wire import format_timestamp
from training_service.api.vertex_v1.writer import CUSTOM_JOBS, job_resource
from training_service.model.tuning_output import TrialOutput
from training_service.use_cases.jobs import JobView

TUNING_JOBS = COLLECTIONS[ResourceKind.TUNING_JOB]
_STOPPING = "STOPPING"
_INFEASIBLE = "INFEASIBLE"


def tuning_job(view: JobView) -> dict[str, Any]:
    """Return the HyperparameterTuningJob of a job, in canonical JSON."""
    record = view.record
    resource = job_resource(record, TUNING_JOBS, record.spec.job_id)
    trials = [_trial(record.spec, each) for each in view.tuning.trials] if view.tuning else []
    return {**resource, **({"trials": trials} if trials else {})}


def _trial(spec: JobSpec, output: TrialOutput) -> dict[str, Any]:
    """
    Return a trial as it stands.

    Without ``measurements``: nothing pages them, and the ops API has them.
    """
    trial = output.trial
    state = _STOPPING if trial.stopped and not trial.state.is_terminal else TRIAL_STATES[trial.state]
    parameters = spec.study.parameters if spec.study else ()
    resource: dict[str, Any] = {
        "id": str(trial.number),
        "state": state,
        "parameters": [
            {"parameterId": each.name, "value": _value(each, trial.hyperparameters[each.name])}
            for each in parameters
            if each.name in trial.hyperparameters  # a trial whose row cannot be read has none
        ],
        "customJob": job_name(
            project_number(spec.project), spec.region, CUSTOM_JOBS, trial_job_id(trial.uid)
        ),
    }
    if trial.running_at:
        resource["startTime"] = format_timestamp(trial.running_at)
    if trial.ended_at:
        resource["endTime"] = format_timestamp(trial.ended_at)
    # "done but missing the final_measurement" is infeasible: no other trial that has ended lacks it.
    if trial.state is JobState.SUCCEEDED and output.final:
        resource["finalMeasurement"] = _measurement(output.final, trial.running_at)
    if state == _INFEASIBLE:
        resource["infeasibleReason"] = trial.error_message
    return resource


def _value(parameter: SearchParameter, text: str) -> float | int | str:
    """Return a value of a parameter; discovery: a number, and a text for CATEGORICAL."""
    if parameter.kind is ParameterKind.CATEGORICAL:
        return text
    try:
        return int(text) if parameter.kind is ParameterKind.INTEGER else float(text)
    except ValueError:  # of a row that cannot be read: it stops no answer
        return text


def _measurement(report: Report, began: datetime | None) -> dict[str, Any]:
    elapsed = Duration()
    elapsed.FromMicroseconds(max(report.reported_us - round(began.timestamp() * 1e6), 0) if began else 0)
    return {
        **({"stepCount": str(report.step)} if report.step > 0 else {}),  # "Must be non-negative"
        "elapsedDuration": elapsed.ToJsonString(),
        "metrics": [
            {"metricId": report.tag, **({"value": report.value} if math.isfinite(report.value) else {})}
        ],
    }
