"""
From a TrainingPipeline in canonical JSON to the job that it runs. Pure.

Only pipelines of the custom task run here: their inputs are a CustomJobSpec. Source of the rules, unless
another is named: the discovery document aiplatform.v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from training_api.dialects.vertex_v1.job_rules import check_identity
from training_api.dialects.vertex_v1.pipelines.model_rules import check_model_of_pipeline, model_request_of
from training_api.dialects.vertex_v1.reader import custom_job_spec
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_api.job.violations import Violations

#: The one definition of a task that runs here.
CUSTOM_TASK = "gs://google-cloud-aiplatform/schema/trainingjob/definition/custom_task_1.0.0.yaml"
INPUTS, MODEL = "trainingTaskInputs", "modelToUpload"
#: What a client says of a TrainingPipeline; every other field is output only, and ignored in a request.
_INPUT_FIELDS = ("displayName", "labels", "encryptionSpec", "trainingTaskDefinition", INPUTS, MODEL)
#: Fields that are refused by name -> why, and the way out.
NOT_HERE: Mapping[str, str] = {
    "inputDataConfig": "this service has no managed datasets; leave it out, and have the trainer read from Cloud Storage",
    "modelId": "this service gives the ids of models; leave it out, and name the model by modelToUpload.displayName",
    "parentModel": "this service has one version of each model; leave it out, and a new model is made",
}
#: What the real service calls the job of a pipeline [unverified: recalled].
_SUFFIX, _LONGEST_NAME = "-custom-job", 128
_JOB_SPEC = "jobSpec"


def pipeline_request_of(resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a TrainingPipeline is the client's."""
    request = {name: resource[name] for name in _INPUT_FIELDS if name in resource}
    return request | ({MODEL: model_request_of(request[MODEL])} if MODEL in request else {})


def check_task(resource: Mapping[str, Any]) -> None:
    """
    Check that a TrainingPipeline is one that this service can read on.

    :raises InvalidJobSpec: it is of another task, has no inputs, or has what is not here.
    """
    rules = Violations()
    for name, why in NOT_HERE.items():
        if name in resource:
            rules.add(name, why)
    definition = resource.get("trainingTaskDefinition", "")
    if definition != CUSTOM_TASK:
        rules.add(
            "trainingTaskDefinition",
            f"must be {CUSTOM_TASK}, as this service runs no other task; got {definition[:200]!r}",
        )
    elif resource.get(INPUTS) is None:
        rules.add(INPUTS, "is required: a CustomJobSpec, with the worker pools of the job")
    if rules.found:
        raise InvalidJobSpec(rules.found)


def job_of_pipeline(
    project: str, location: str, job_id: str, request: Mapping[str, Any]
) -> tuple[JobSpec, dict[str, Any]]:
    """
    Return the validated job of a pipeline, and the request of a CustomJob for it.

    The labels are the job's, too: among them may be those that name secrets.

    :param request: what ``pipeline_request_of`` returns, with its inputs in canonical JSON.
    :raises InvalidJobSpec: with every rule that the request breaks.
    """
    rules = Violations()
    check_identity(rules, request)
    if MODEL in request:
        check_model_of_pipeline(rules, MODEL, request[MODEL], request[INPUTS])
    name = request.get("displayName", "")
    job_request = {
        "displayName": f"{name[: _LONGEST_NAME - len(_SUFFIX)]}{_SUFFIX}",
        _JOB_SPEC: request[INPUTS],
        **{name: request[name] for name in ("labels", "encryptionSpec") if name in request},
    }
    try:
        spec = custom_job_spec(project, location, job_id, job_request)
    except InvalidJobSpec as error:
        # What is the pipeline's and the job's is found twice.
        raise InvalidJobSpec(list(dict.fromkeys([*rules.found, *in_pipeline(error.violations)]))) from error
    if rules.found:
        raise InvalidJobSpec(rules.found)
    return spec, job_request


def in_pipeline(violations: Iterable[FieldViolation]) -> list[FieldViolation]:
    """Return what is wrong with a job by the fields of the pipeline that it was to be made for."""
    return [
        FieldViolation(field=_in_pipeline(each.field), description=each.description) for each in violations
    ]


def _in_pipeline(field: str) -> str:
    first, dot, rest = field.partition(".")
    return f"{INPUTS}{dot}{rest}" if first == _JOB_SPEC else field
