"""
A job's specification and request as stored: JSON that outlives the code that wrote it.

The specification is fixed when the job is created, and read from here ever after: later rules, defaults and
models of the API do not change it. The request is stored as it was sent, to be shown. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from training_api.dialects.ml_v1.resources import AcceleratorType, Goal, SearchAlgorithm, TrainingInput
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import parse_image_ref
from training_api.job.job_spec import JobSpec
from training_api.job.machines import MACHINE_TYPES, MachineType
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.secret_refs import SecretRef
from training_api.job.tuning.study_spec import StudySpec

#: Grows when the form changes; a migration then converts what is stored.
FORM = 1
#: The errors from stored JSON that is not as it should be; they concern that one row only.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_MICROSECOND = timedelta(microseconds=1)


def mapping_of(stored: Any) -> dict[str, Any]:
    """Return a stored JSON object; empty if it is none."""
    return stored if isinstance(stored, dict) else {}


def read_request(stored: Any) -> TrainingInput:
    """Return a stored ``trainingInput``, without fields that this version's models do not know."""
    fields = mapping_of(stored)
    try:
        return TrainingInput.model_validate(fields, extra="ignore")
    except ValidationError as error:
        strange = {each["loc"][0] for each in error.errors()}
        known = {name: value for name, value in fields.items() if name not in strange}
        return TrainingInput.model_validate(known, extra="ignore")


def waits_until_us(created_us: int, spec: JobSpec) -> int | None:
    """Return the microseconds since the epoch until which a job may wait; ``None``: for ever."""
    return None if spec.max_wait is None else created_us + spec.max_wait // _MICROSECOND


def spec_to_json(spec: JobSpec) -> dict[str, Any]:
    """Return what ``spec_from_json`` needs besides the columns: request, labels and priority."""
    return {
        "form": FORM,
        "roles": list(_roles_to_json(spec)),
        "max_wait_us": None if spec.max_wait is None else spec.max_wait // _MICROSECOND,
        "max_running_us": spec.max_running // _MICROSECOND,
        "study": _study_to_json(spec.study) if spec.study else None,
        "secrets": {ref.name: ref.variable for ref in spec.secrets},
    }


def spec_from_json(
    stored: Mapping[str, Any],
    *,
    project: str,
    job_id: str,
    labels: Mapping[str, str],
    priority: int,
    request: TrainingInput,
) -> JobSpec:
    """
    Return the job that ``spec_to_json`` stored.

    :param request: the request.
    :raises Exception: one of ``UNREADABLE``: the form is another or missing, or a name is unknown.
    """
    if stored.get("form") != FORM:
        raise ValueError(stored.get("unreadable") or f"its specification is not of the form {FORM}")
    replicas = tuple(replica for role in stored["roles"] for replica in _replicas(role))
    if not replicas or replicas[0].replica.role is not ReplicaRole.MASTER:
        raise ValueError("its specification has no master")
    max_wait_us = stored["max_wait_us"]
    return JobSpec(
        project=project,
        job_id=job_id,
        replicas=replicas,
        training_input=request,
        labels=dict(labels),
        max_wait=None if max_wait_us is None else max_wait_us * _MICROSECOND,
        max_running=stored["max_running_us"] * _MICROSECOND,
        priority=priority,
        study=_study(stored["study"], request) if stored["study"] else None,
        # Jobs of earlier versions have none.
        secrets=tuple(
            SecretRef(name=name, variable=variable) for name, variable in stored.get("secrets", {}).items()
        ),
    )


def _roles_to_json(spec: JobSpec) -> Iterator[dict[str, Any]]:
    """Yield what the replicas of each role run; the replicas of a role are alike."""
    counts = Counter(each.replica.role for each in spec.replicas)
    for each in spec.replicas:
        if each.replica.index == 0:
            yield {
                "role": each.replica.role.value,
                "count": counts[each.replica.role],
                "image": str(each.image),
                "machine": each.machine.name,
                "command": list(each.command),
                "args": list(each.args),
                "gpus": each.gpus,
                "gpu": each.gpu.value if each.gpu else None,
            }


def _replicas(role: Mapping[str, Any]) -> Iterator[ReplicaSpec]:
    first = ReplicaSpec(
        replica=ReplicaId(role=ReplicaRole(role["role"])),
        image=parse_image_ref(role["image"]),
        machine=_machine(role["machine"]),
        command=tuple(role["command"]),
        args=tuple(role["args"]),
        gpus=role["gpus"],
        gpu=AcceleratorType(role["gpu"]) if role["gpu"] else None,
    )
    for index in range(role["count"]):
        yield replace(first, replica=ReplicaId(role=first.replica.role, index=index))


def _machine(name: str) -> MachineType:
    if name not in MACHINE_TYPES:
        raise ValueError(f"there is no machine type {name!r}")
    return MACHINE_TYPES[name]


def _study_to_json(study: StudySpec) -> dict[str, Any]:
    """Return all but the parameters, which are read from the request."""
    return {
        "goal": study.goal.value,
        "metric_tag": study.metric_tag,
        "max_trials": study.max_trials,
        "max_parallel_trials": study.max_parallel_trials,
        "max_failed_trials": study.max_failed_trials,
        "algorithm": study.algorithm.value,
        "stops_early": study.stops_early,
        "resume_job_id": study.resume_job_id,
    }


def _study(stored: Mapping[str, Any], request: TrainingInput) -> StudySpec:
    if request.hyperparameters is None:
        raise ValueError("its search cannot be read")
    return StudySpec(
        search=request.hyperparameters,
        goal=Goal(stored["goal"]),
        metric_tag=stored["metric_tag"],
        max_trials=stored["max_trials"],
        max_parallel_trials=stored["max_parallel_trials"],
        max_failed_trials=stored["max_failed_trials"],
        algorithm=SearchAlgorithm(stored["algorithm"]),
        stops_early=stored["stops_early"],
        resume_job_id=stored["resume_job_id"],
    )
