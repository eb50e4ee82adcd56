"""
From a HyperparameterTuningJob to a ``JobSpec`` that is known to be good. Pure.

Every broken rule is reported at once, by the camelCase path of its field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.dialects.vertex_v1.tuning.study import read_study
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_api.job.violations import Violations

#: What a client says of a HyperparameterTuningJob; every other field is output only, and ignored.
INPUT_FIELDS = (
    "displayName",
    "studySpec",
    "maxTrialCount",
    "parallelTrialCount",
    "maxFailedTrialCount",
    "trialJobSpec",
    "labels",
    "encryptionSpec",
)
#: ``timeout`` limits each trial; nothing limits all of them together.
_NO_LIMIT = timedelta(days=36500)


def tuning_request_of(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a HyperparameterTuningJob is the client's."""
    return {name: resource[name] for name in INPUT_FIELDS if name in resource}


def trial_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a client would say of the CustomJob that one trial is."""
    shared = {name: request[name] for name in ("displayName", "labels", "encryptionSpec") if name in request}
    return {**shared, **({"jobSpec": request["trialJobSpec"]} if "trialJobSpec" in request else {})}


def tuning_job_spec(project: str, location: str, job_id: str, request: Mapping[str, Any]) -> JobSpec:
    """
    Return the validated job of a create request.

    :param job_id: given by the service.
    :param request: what ``tuning_request_of`` returns.
    :raises InvalidJobSpec: with every rule that the request breaks.
    """
    rules = Violations()
    study = read_study(rules, request)
    try:
        trial = custom_job_spec(project, location, job_id, trial_request(request))
    except InvalidJobSpec as error:
        raise InvalidJobSpec([*of_trials(error.violations), *rules.found]) from error
    if rules.found:
        raise InvalidJobSpec(rules.found)
    return replace(trial, study=study, max_running=_NO_LIMIT)


def of_trials(violations: Iterable[FieldViolation]) -> list[FieldViolation]:
    """Return what was found in the CustomJob of a trial, by the paths of its tuning job."""
    return [FieldViolation(field=_of_trial(each.field), description=each.description) for each in violations]


def _of_trial(path: str) -> str:
    first, dot, rest = path.partition(".")
    return f"trialJobSpec{dot}{rest}" if first == "jobSpec" else path
