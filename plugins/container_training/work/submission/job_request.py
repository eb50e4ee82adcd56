"""
A job as a DAG describes it, as the wire's ``Job``.

A job file, the API's own form, single fields.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from container_training.work.submission.job_file import part_of, wire_names
from training_api.dialects.ml_v1.resources import Job, TrainingInput, WireModel
from training_api.errors import FieldViolation, InvalidJobSpec
from training_api.job.roles import OTHER_ROLES, ROLES
from training_api.job.secret_refs import secret_labels

DEFAULT_REGION = "us-central1"
#: Fields that are called as on the wire and merged with the job's own: those of the roles, beside the
#: master's image, command and type, and the search.
_MERGED_FIELDS = (
    "master_config",
    *(f"{role.name}_{what}" for role in OTHER_ROLES for what in ("type", "count", "config")),
    "use_chief_in_tf_config",
    "hyperparameters",
)
_EMPTY: tuple[Any, ...] = (None, "", [])


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFields:
    """
    The fields that a task sets one by one.

    ``None`` and empty text leave a field to the job's own form.

    :param default_job_dir: the job folder if nothing else names one.
    :param args: words, or text that is split as a shell would; a list among the words stands for its own
        words.
    :param hyperparameters: what a tuning job searches for, a ``HyperparameterSpec`` in the API's own form.
    :param worker_config: a ``ReplicaConfig`` in the API's own form, under the names of either case; so are
        the other configs.
    :param trainer_secrets: names of secrets -> variables; empty: files. They travel as labels.
    """

    image: str | None = None
    args: Sequence[Any] | str | None = None
    command: Sequence[Any] | str | None = None
    job_dir: str | None = None
    default_job_dir: str | None = None
    labels: Mapping[str, str] | None = None
    region: str | None = None
    scale_tier: str | None = None
    master_type: str | None = None
    master_config: Mapping[str, Any] | None = None
    worker_type: str | None = None
    worker_count: int | str | None = None
    worker_config: Mapping[str, Any] | None = None
    parameter_server_type: str | None = None
    parameter_server_count: int | str | None = None
    parameter_server_config: Mapping[str, Any] | None = None
    evaluator_type: str | None = None
    evaluator_count: int | str | None = None
    evaluator_config: Mapping[str, Any] | None = None
    use_chief_in_tf_config: bool | str | None = None
    max_wait_time: str | None = None
    max_running_time: str | None = None
    priority: int | str | None = None
    service_account: str | None = None
    network: str | None = None
    hyperparameters: Mapping[str, Any] | None = None
    package_uris: Sequence[str] | str | None = None
    python_module: str | None = None
    runtime_version: str | None = None
    python_version: str | None = None
    trainer_secrets: Mapping[str, str | None] | None = None


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
    own = _under_wire_names(_as_mapping(job), Job)
    wire = _overridden(file or {}, own, Job)
    training = _overridden(_part(wire, "trainingInput"), _merged_fields(fields), TrainingInput)
    master = _part(training, "masterConfig")
    scheduling = _part(training, "scheduling")
    _override(master, {"imageUri": fields.image, "containerCommand": _words(fields.command)})
    _override(
        scheduling,
        {
            "maxWaitTime": fields.max_wait_time,
            "maxRunningTime": fields.max_running_time,
            "priority": fields.priority,
        },
    )
    # The API refuses args beside containerCommand or containerArgs; there they belong to the container.
    is_with_command = "containerCommand" in master or "containerArgs" in master
    if is_with_command and fields.args:
        training.pop("args", None)
    _override(
        master if is_with_command else training,
        {"containerArgs" if is_with_command else "args": _words(fields.args)},
    )
    _override(
        training,
        {
            "jobDir": fields.job_dir or training.get("jobDir") or fields.default_job_dir,
            "region": fields.region or training.get("region") or DEFAULT_REGION,
            "scaleTier": fields.scale_tier or ("CUSTOM" if _has_types(fields) else None),
            "masterType": fields.master_type,
            "serviceAccount": fields.service_account,
            "network": fields.network,
            "packageUris": _words(fields.package_uris),
            "pythonModule": fields.python_module,
            "runtimeVersion": fields.runtime_version,
            "pythonVersion": fields.python_version,
        },
    )
    if master:
        training["masterConfig"] = master
    if scheduling:
        training["scheduling"] = scheduling
    labels = {
        **_part(own if fields.labels else wire, "labels"),
        **(fields.labels or {}),
        **secret_labels(fields.trainer_secrets or {}),
    }
    if labels:
        wire["labels"] = {str(key): str(value) for key, value in labels.items()}
    wire["trainingInput"] = training
    try:
        return Job.model_validate(wire)
    except ValidationError as error:
        raise InvalidJobSpec(_violations(error)) from error


def _as_mapping(job: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(job, str) and job.strip():
        try:
            job = json.loads(job)
        except json.JSONDecodeError as error:
            raise _invalid("job", f"must be a JSON object: {error}") from error
    if not job:
        return {}
    if not isinstance(job, Mapping):
        raise _invalid("job", f"must be a JSON object, got {type(job).__name__}")
    return dict(job)


def _part(wire: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = wire.get(name) or {}
    if not isinstance(part, Mapping):
        raise _invalid(name, f"must be a JSON object, got {type(part).__name__}")
    return dict(part)


def _override(wire: dict[str, Any], values: Mapping[str, Any]) -> None:
    # A template renders an unset parameter as empty text.
    wire.update(_without_empty(values))


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in _EMPTY}


def _merged_fields(fields: JobFields) -> dict[str, Any]:
    """Return those of ``_MERGED_FIELDS`` that are set, under the wire's names."""
    given = {name: getattr(fields, name) for name in _MERGED_FIELDS}
    return _under_wire_names(
        _without_empty(
            {
                name: _without_empty(value) if isinstance(value, Mapping) else value
                for name, value in given.items()
            }
        ),
        TrainingInput,
    )


def _has_types(fields: JobFields) -> bool:
    """Tell whether a machine type is set, which only the tier CUSTOM has."""
    return any(getattr(fields, f"{role.name}_type") for role in ROLES)


def _words(value: Sequence[Any] | str | None) -> list[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return shlex.split(value)
    if not isinstance(value, Sequence):
        return [str(value)]  # what a native template makes of the text "5"
    # A list within the list is the output of another task, such as the arguments of the best trial.
    parts = ([part] if not isinstance(part, list | tuple) else part for part in value)
    return [str(word) for part in parts for word in part]


def _violations(error: ValidationError) -> list[FieldViolation]:
    return [
        FieldViolation(
            field=_path(detail["loc"]),
            description="unknown field"
            if detail["type"] == "extra_forbidden"
            else f"{detail['msg']}; got {detail['input']!r}",
        )
        for detail in error.errors()
    ]


def _path(location: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _invalid(field: str, description: str) -> InvalidJobSpec:
    return InvalidJobSpec([FieldViolation(field=field, description=description)])


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
