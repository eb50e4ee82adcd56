"""
A job as a DAG describes it, as the wire's ``Job``.

A job file, the API's own form, single fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from pydantic import ValidationError

from container_training.work.submission.default_region import DEFAULT_REGION
from container_training.work.submission.job_fields import fields_of_part
from container_training.work.submission.job_file import part_of, wire_names
from container_training.work.template_values import TaskOutput, mapping, problem, shell_words
from training_api.dialects.ml_v1.resources import Job, TrainingInput
from training_api.dialects.ml_v1.roles import ROLES
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.secret_refs import secret_labels
from training_api.wire import WireModel

_EMPTY: tuple[Any, ...] = (None, "", [])
#: The member of the master that ``args`` moves to beside a command.
_CONTAINER_ARGS = "containerArgs"


class JobFieldsOfRoles(TypedDict, total=False):
    """Fields of a job but for its image, command and arguments."""

    job_dir: str | TaskOutput | None
    default_job_dir: str | None
    labels: Mapping[str, str] | TaskOutput | None
    region: str | TaskOutput | None
    scale_tier: str | TaskOutput | None
    master_type: str | TaskOutput | None
    master_config: Mapping[str, Any] | TaskOutput | None
    worker_type: str | TaskOutput | None
    worker_count: int | str | TaskOutput | None
    worker_config: Mapping[str, Any] | TaskOutput | None
    parameter_server_type: str | TaskOutput | None
    parameter_server_count: int | str | TaskOutput | None
    parameter_server_config: Mapping[str, Any] | TaskOutput | None
    evaluator_type: str | TaskOutput | None
    evaluator_count: int | str | TaskOutput | None
    evaluator_config: Mapping[str, Any] | TaskOutput | None
    use_chief_in_tf_config: bool | str | TaskOutput | None
    max_wait_time: str | TaskOutput | None
    max_running_time: str | TaskOutput | None
    priority: int | str | TaskOutput | None
    service_account: str | TaskOutput | None
    network: str | TaskOutput | None
    hyperparameters: Mapping[str, Any] | TaskOutput | None
    package_uris: Sequence[str] | str | TaskOutput | None
    python_module: str | TaskOutput | None
    runtime_version: str | TaskOutput | None
    python_version: str | TaskOutput | None
    trainer_secrets: Mapping[str, str | None] | TaskOutput | None


class JobFieldsOfImage(JobFieldsOfRoles, total=False):
    """Fields of a job whose image is given otherwise."""

    args: Sequence[Any] | str | TaskOutput | None
    command: Sequence[Any] | str | TaskOutput | None


class JobFields(JobFieldsOfImage, total=False):
    """
    The one list of the fields that a task sets one by one.

    Operators and task groups take them, and editors show them.

    A field that is missing, ``None`` or empty text is left to the job's own form.
    ``JobDescriptionOperator`` says what each of them means.
    """

    image: str | TaskOutput | None


def job_request(
    job: Mapping[str, Any] | str | None, fields: JobFields, file: Mapping[str, Any] | None = None
) -> Job:
    """
    Return the job of a create request.

    It is ``file``, overridden by ``job``, overridden by the fields that are set.

    Pure. Checks names and types; the rules between fields are ``job_spec_from_wire``'s.

    :param job: in the API's own form; an object or its JSON text.
    :param file: what a job file holds, under the wire's names.
    :raises InvalidJobSpec: unknown fields or wrong types, every one of them.

    Source of what overrides what: gcloud, ``api_lib/ml_engine/jobs.py``, ``BuildTrainingJob``: flags are set
    field by field, also within ``masterConfig``; lists (``args``) and the labels are replaced. Deviation: the
    labels of ``job`` and of the fields, which gcloud does not tell apart, are put together.
    """
    given: Mapping[str, Any] = fields
    own = _under_wire_names(_as_mapping(job), Job)
    wire = _overridden(file or {}, own, Job)
    ours = _set_fields(given)
    args = ours.pop("args", None)
    training = _overridden(_part(wire, "trainingInput"), ours, TrainingInput)
    for name, default in (("jobDir", given.get("default_job_dir")), ("region", DEFAULT_REGION)):
        if default and not training.get(name):
            training[name] = default
    if "scaleTier" not in ours and _has_types(given):
        training["scaleTier"] = "CUSTOM"
    master = _part(training, "masterConfig") | _set_fields(given, "masterConfig")
    scheduling = _part(training, "scheduling") | _set_fields(given, "scheduling")
    # The API refuses args beside containerCommand or containerArgs; there they belong to the container.
    if args and ("containerCommand" in master or _CONTAINER_ARGS in master):
        training.pop("args", None)
        master[_CONTAINER_ARGS] = args
    elif args:
        training["args"] = args
    if master:
        training["masterConfig"] = master
    if scheduling:
        training["scheduling"] = scheduling
    labels = {
        **_part(own if given.get("labels") else wire, "labels"),
        **mapping("labels", given.get("labels")),
        **secret_labels(mapping("trainer_secrets", given.get("trainer_secrets"))),
    }
    if labels:
        wire["labels"] = {str(key): str(value) for key, value in labels.items()}
    wire["trainingInput"] = training
    try:
        return Job.model_validate(wire)
    except ValidationError as error:
        raise InvalidJobSpec(_violations(error)) from error


def explained(error: InvalidJobSpec) -> str:
    """Return what is wrong with a job, by the arguments that describe it, and the way out."""
    found = "; ".join(f"{in_arguments(each.field)}: {each.description}" for each in error.violations)
    return f"{found}; correct the argument, or what job or the job file says, and clear the task"


def in_arguments(field: str) -> str:
    """Return a request's field with its argument: ``image (trainingInput.x)``. Pure."""
    parts = re.sub(r"\[\d+\]", "", field).split(".")
    parent = parts[-2] if len(parts) > 1 else ""
    own = {each.wire: each.name for each in fields_of_part(parent)} | {_CONTAINER_ARGS: "args"}
    names = [own[parts[-1]]] if parts[-1] in own else [_snake(part) for part in parts]
    argument = next((name for name in names if name in JobFields.__annotations__), "")
    if parts[0] == "labels" and parts[-1].startswith("secret-"):
        argument = "trainer_secrets"
    return f"{argument} ({field})" if argument and argument != field else field


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _as_mapping(job: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(job, str) and job.strip():
        try:
            job = json.loads(job)
        except json.JSONDecodeError as error:
            raise InvalidJobSpec.of("job", f"must be a JSON object, got {job!r:.200}: {error}") from error
    if not job:
        return {}
    if not isinstance(job, Mapping):
        raise InvalidJobSpec.of("job", f"must be a JSON object, got {type(job).__name__}")
    return dict(job)


def _part(wire: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = wire.get(name) or {}
    if not isinstance(part, Mapping):
        raise InvalidJobSpec.of(name, f"must be a JSON object, got {type(part).__name__}")
    return dict(part)


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    # A template renders an unset parameter as empty text.
    return {name: value for name, value in values.items() if value not in _EMPTY}


def _set_fields(given: Mapping[str, Any], part: str = "") -> dict[str, Any]:
    """
    Return the fields that are set, as the wire has them.

    :param part: the object within ``trainingInput`` that has them; empty: ``trainingInput`` itself.
    """
    found: dict[str, Any] = {}
    for field in fields_of_part(part):
        value = given.get(field.name)
        if field.is_words:
            value = _words(field.name, value)
        elif field.is_merged and isinstance(value, Mapping):
            value = _under_wire_names(
                _without_empty(value), part_of(TrainingInput, field.wire) or TrainingInput
            )
        found[field.wire] = value
    return _without_empty(found)


def _has_types(fields: Mapping[str, Any]) -> bool:
    """Tell whether a machine type is set, which only the tier CUSTOM has."""
    return any(fields.get(f"{role.name}_type") for role in ROLES)


def _words(name: str, value: Sequence[Any] | str | None) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return shell_words(name, value)
    if not isinstance(value, Sequence):
        return [str(value)]  # what a native template makes of the text "5"
    # A list within the list is the output of another task, such as the arguments of the best trial.
    parts = ([part] if not isinstance(part, list | tuple) else part for part in value)
    return [str(word) for part in parts for word in part]


def _violations(error: ValidationError) -> list[FieldViolation]:
    return [
        FieldViolation(
            field=_path(detail["loc"]),
            description=f"unknown field, got {detail['input']!r}"
            if detail["type"] == "extra_forbidden"
            else problem(detail),
        )
        for detail in error.errors()
    ]


def _path(location: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _under_wire_names(values: Mapping[str, Any], model: type[WireModel] = Job) -> dict[str, Any]:
    """
    Return ``values`` with the wire's names for the fields of ``model`` and its parts.

    Other names stay.
    """
    names = wire_names(model)
    renamed: dict[str, Any] = {}
    for key, value in values.items():
        name = names.get(key, key)
        part = part_of(model, name)
        # Both names of one field stay, for the model to refuse.
        name = key if name != key and name in values else name
        renamed[name] = _under_wire_names(value, part) if part and isinstance(value, Mapping) else value
    return renamed


def _overridden(
    file: Mapping[str, Any], job: Mapping[str, Any], model: type[WireModel] = Job
) -> dict[str, Any]:
    """
    Return the job of a file with the fields that ``job`` has in place of its own.

    Pure. Objects are merged field by field; lists and labels are replaced as a whole, as gcloud's flags do;
    ``None`` sets nothing.

    Source: gcloud, ``api_lib/ml_engine/jobs.py`` ``BuildTrainingJob``.
    """
    merged = dict(file)
    for name, value in job.items():
        part = part_of(model, name)
        if part and isinstance(value, Mapping) and isinstance(merged.get(name), Mapping):
            merged[name] = _overridden(merged[name], value, part)
        elif value is not None:
            merged[name] = value
    return merged
