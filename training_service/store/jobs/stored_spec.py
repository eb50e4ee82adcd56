"""
A job's specification as stored: JSON that outlives the code that wrote it.

The specification is fixed when the job is created, and read from here ever after: later rules, defaults and
models of the API do not change it. The request is stored beside it as it was sent, to be shown. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from training_api.job.accelerators import Accelerator
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.image_ref import parse_image_ref
from training_api.job.job_spec import JobSpec
from training_api.job.machines import MachineType
from training_api.job.newer_machines import ALL_MACHINE_TYPES
from training_api.job.packages.python_package import PackageTask, PythonPackages
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.restarts import RestartScope
from training_api.job.secret_refs import SecretRef
from training_api.job.tuning.search_terms import (
    Condition,
    Goal,
    ParameterKind,
    ScaleType,
    SearchAlgorithm,
    SearchParameter,
    Selection,
    Stopping,
)
from training_api.job.tuning.study_spec import StudySpec

#: Grows when the form changes; a migration then converts what is stored.
FORM = 2
#: The errors from stored JSON that is not as it should be; they concern that one row only.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_MICROSECOND = timedelta(microseconds=1)


def mapping_of(stored: Any) -> dict[str, Any]:
    """Return a stored JSON object; empty if it is none."""
    return stored if isinstance(stored, dict) else {}


def waits_until_us(created_us: int, spec: JobSpec) -> int | None:
    """Return the microseconds since the epoch until which a job may wait; ``None``: for ever."""
    return None if spec.max_wait is None else created_us + spec.max_wait // _MICROSECOND


def spec_to_json(spec: JobSpec) -> dict[str, Any]:
    """Return what ``spec_from_json`` needs besides the columns: dialect, labels and priority."""
    return {
        "form": FORM,
        "roles": list(_roles_to_json(spec)),
        "max_wait_us": None if spec.max_wait is None else spec.max_wait // _MICROSECOND,
        "max_running_us": spec.max_running // _MICROSECOND,
        "study": _study_to_json(spec.study) if spec.study else None,
        "secrets": {ref.name: ref.variable for ref in spec.secrets},
        "output_dir": spec.output_dir,
        "use_chief": spec.use_chief,
        "service_account": spec.service_account,
        "region": spec.region,
        "packages": _packages_to_json(spec.packages) if spec.packages else None,
        "restarts": spec.restarts.value,
    }


def spec_from_json(
    stored: Mapping[str, Any],
    *,
    project: str,
    job_id: str,
    dialect: str,
    labels: Mapping[str, str],
    priority: int,
) -> JobSpec:
    """
    Return the job that ``spec_to_json`` stored.

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
        dialect=dialect,
        labels=dict(labels),
        max_wait=None if max_wait_us is None else max_wait_us * _MICROSECOND,
        max_running=stored["max_running_us"] * _MICROSECOND,
        priority=priority,
        study=_study(stored["study"]) if stored["study"] else None,
        secrets=tuple(
            SecretRef(name=name, variable=variable) for name, variable in stored["secrets"].items()
        ),
        output_dir=stored["output_dir"],
        use_chief=stored["use_chief"],
        service_account=stored["service_account"],
        region=stored["region"],
        packages=_packages(stored["packages"]) if stored["packages"] else None,
        # Absent in jobs that were stored before any dialect could say it.
        restarts=RestartScope(stored.get("restarts", RestartScope.REPLICA)),
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
                **({"installs": _installs_to_json(each.installs)} if each.installs else {}),
            }


def _replicas(role: Mapping[str, Any]) -> Iterator[ReplicaSpec]:
    first = ReplicaSpec(
        replica=ReplicaId(role=ReplicaRole(role["role"])),
        image=parse_image_ref(role["image"]),
        machine=_machine(role["machine"]),
        command=tuple(role["command"]),
        args=tuple(role["args"]),
        gpus=role["gpus"],
        gpu=Accelerator(role["gpu"]) if role["gpu"] else None,
        # Absent in most jobs, and in all that were stored before any dialect could say it.
        installs=_installs(role["installs"]) if "installs" in role else None,
    )
    for index in range(role["count"]):
        yield replace(first, replica=ReplicaId(role=first.replica.role, index=index))


def _machine(name: str) -> MachineType:
    if name not in ALL_MACHINE_TYPES:
        raise ValueError(f"there is no machine type {name!r}")
    return ALL_MACHINE_TYPES[name]


def _installs_to_json(task: PackageTask) -> dict[str, Any]:
    return {"uris": list(task.uris), "module": task.module}


def _installs(stored: Mapping[str, Any]) -> PackageTask:
    return PackageTask(uris=tuple(stored["uris"]), module=stored["module"])


def _packages_to_json(packages: PythonPackages) -> dict[str, Any]:
    return {
        "uris": list(packages.uris),
        "module": packages.module,
        "runtime_version": packages.runtime_version,
        "python_version": packages.python_version,
    }


def _packages(stored: Mapping[str, Any]) -> PythonPackages:
    return PythonPackages(
        uris=tuple(stored["uris"]),
        module=stored["module"],
        runtime_version=stored["runtime_version"],
        python_version=stored["python_version"],
    )


def _study_to_json(study: StudySpec) -> dict[str, Any]:
    return {
        "parameters": [_parameter_to_json(each) for each in study.parameters],
        "goal": study.goal.value,
        "metric_tag": study.metric_tag,
        "max_trials": study.max_trials,
        "max_parallel_trials": study.max_parallel_trials,
        "max_failed_trials": study.max_failed_trials,
        "min_trials": study.min_trials,
        "max_trials_without_progress": study.max_trials_without_progress,
        "algorithm": study.algorithm.value,
        "stopping": study.stopping.value,
        "stops_by_seconds": study.stops_by_seconds,
        "selection": study.selection.value,
        "resume_job_id": study.resume_job_id,
    }


def _study(stored: Mapping[str, Any]) -> StudySpec:
    return StudySpec(
        parameters=tuple(map(_parameter, stored["parameters"])),
        goal=Goal(stored["goal"]),
        metric_tag=stored["metric_tag"],
        max_trials=stored["max_trials"],
        max_parallel_trials=stored["max_parallel_trials"],
        max_failed_trials=stored["max_failed_trials"],
        # Absent, as ``stops_by_seconds`` is, in jobs that were stored before any dialect could say it.
        min_trials=stored.get("min_trials", 0),
        max_trials_without_progress=stored.get("max_trials_without_progress", 0),
        algorithm=SearchAlgorithm(stored["algorithm"]),
        stopping=Stopping(stored["stopping"]),
        stops_by_seconds=stored.get("stops_by_seconds", False),
        selection=Selection(stored["selection"]),
        resume_job_id=stored["resume_job_id"],
    )


def _parameter_to_json(parameter: SearchParameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "kind": parameter.kind.value,
        "low": parameter.low,
        "high": parameter.high,
        "scale": parameter.scale.value,
        "values": list(parameter.values),
        **({"condition": _condition_to_json(parameter.condition)} if parameter.condition else {}),
    }


def _parameter(stored: Mapping[str, Any]) -> SearchParameter:
    return SearchParameter(
        name=stored["name"],
        kind=ParameterKind(stored["kind"]),
        low=stored["low"],
        high=stored["high"],
        scale=ScaleType(stored["scale"]),
        values=tuple(stored["values"]),
        # Absent in most parameters, and in all that were stored before any dialect could say it.
        condition=_condition(stored["condition"]) if "condition" in stored else None,
    )


def _condition_to_json(condition: Condition) -> dict[str, Any]:
    return {"parent": condition.parent, "values": list(condition.values)}


def _condition(stored: Mapping[str, Any]) -> Condition:
    return Condition(parent=stored["parent"], values=tuple(stored["values"]))
