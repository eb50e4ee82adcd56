"""
From a CustomJob or a HyperparameterTuningJob to a job in ml.v1's words. Pure.

What ml.v1 has no words for is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from training_api.dialects.ml_v1.resources import AcceleratorType, Job
from training_api.dialects.ml_v1.roles import MASTER, ROLES, RoleFields
from training_api.dialects.vertex_v1.job_states import JOB_STATES
from training_api.dialects.vertex_v1.pool_tasks import image_of, task_of
from training_api.job.newer_machines import VERTEX_MACHINE_TYPES
from training_api.states import JobState
from training_api.vertex_jobs.address import TUNING_JOBS
from training_api.vertex_jobs.failures import with_advice
from training_api.vertex_jobs.literals import folder_args, literal_text
from training_api.vertex_jobs.trials import read_search, read_trials

#: Words that no job of this project's service has. A paused or expired job and one that did a part of its
#: work count as failures, as they do for Airflow's own operators (A4 of the contract); one that is updated
#: runs on afterwards [discovery: JobState].
_STATES: Mapping[str, JobState] = {
    **{word: state for state, word in JOB_STATES.items()},
    "JOB_STATE_UPDATING": JobState.RUNNING,
    "JOB_STATE_PAUSED": JobState.FAILED,
    "JOB_STATE_EXPIRED": JobState.FAILED,
    "JOB_STATE_PARTIALLY_SUCCEEDED": JobState.FAILED,
}


def job_of(resource: Mapping[str, Any]) -> Job:
    """
    Return the job of a resource as Vertex AI answered it.

    Its id is the one that the service gave, the digits at the end of the name; the id that was chosen is the
    resource's ``displayName``.

    :raises ValidationError: it is no job.
    """
    # projects/P/locations/L/customJobs/ID
    *_, location, collection, job_id = ["", "", *str(resource.get("name", "")).split("/")]
    is_study = collection == TUNING_JOBS
    job_spec = resource.get("trialJobSpec" if is_study else "jobSpec", {})
    training = {"region": location, **_training(job_spec, is_study=is_study)}
    if key := resource.get("encryptionSpec", {}).get("kmsKeyName"):
        training["encryptionConfig"] = {"kmsKeyName": key}
    if is_study:
        training["hyperparameters"] = read_search(resource)
    found = {
        "jobId": job_id,
        "state": _STATES.get(resource.get("state", "")),
        "labels": resource.get("labels"),
        "createTime": resource.get("createTime"),
        "startTime": resource.get("startTime"),
        "endTime": resource.get("endTime"),
        "errorMessage": _error(resource, job_spec),
        "trainingInput": training,
        "trainingOutput": read_trials(resource) if is_study else None,
    }
    return Job.model_validate({name: value for name, value in found.items() if value is not None})


def _error(resource: Mapping[str, Any], job_spec: Mapping[str, Any]) -> str | None:
    message: str | None = resource.get("error", {}).get("message")
    word = resource.get("state", "")
    if not message and _STATES.get(word) is JobState.FAILED and word not in JOB_STATES.values():
        return f"Vertex AI ended the job as {word}."
    return with_advice(message, job_spec) if message else message


def _training(job_spec: Mapping[str, Any], *, is_study: bool) -> dict[str, Any]:
    scheduling = job_spec.get("scheduling", {})
    limits = {
        "maxRunningTime": scheduling.get("timeout"),
        "maxWaitTime": scheduling.get("maxWaitDuration"),
    }
    job_dir = job_spec.get("baseOutputDirectory", {}).get("outputUriPrefix")
    found = {
        "scaleTier": "CUSTOM",
        "jobDir": job_dir,
        "serviceAccount": job_spec.get("serviceAccount"),
        "network": job_spec.get("network"),
        "enableWebAccess": job_spec.get("enableWebAccess"),
        "scheduling": {name: value for name, value in limits.items() if value} or None,
    }
    added = folder_args(job_dir or "", is_study=is_study)
    for fields, pool in zip(ROLES, job_spec.get("workerPoolSpecs", []), strict=False):
        if pool:
            found |= dict(_role(fields, pool, added))
    return {name: value for name, value in found.items() if value is not None}


def _role(fields: RoleFields, pool: Mapping[str, Any], added: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a role. :param added: the arguments that the writer adds."""
    machine, task = pool.get("machineSpec", {}), task_of(pool)
    yield f"{fields.wire}Type", machine.get("machineType")
    if fields is not MASTER:
        yield f"{fields.wire}Count", pool.get("replicaCount")
    args = list(task.get("args", ()))
    if added and tuple(args[-len(added) :]) == tuple(added):
        args = args[: -len(added)]
    args = [literal_text(word) for word in args]
    config = {"imageUri": image_of(pool), "diskConfig": pool.get("diskSpec")}
    config["acceleratorConfig"] = _accelerators(machine)
    if "packageUris" in task:
        if fields is MASTER:
            yield "packageUris", task["packageUris"]
            yield "pythonModule", task.get("pythonModule")
            yield "args", args or None
    else:
        config["containerCommand"] = [literal_text(word) for word in task.get("command", ())] or None
        config["containerArgs"] = args or None
    yield f"{fields.wire}Config", {name: value for name, value in config.items() if value}


def _accelerators(machine: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is attached to a machine; what it comes with goes without saying."""
    kind, known = machine.get("acceleratorType"), VERTEX_MACHINE_TYPES.get(machine.get("machineType", ""))
    if kind not in set(AcceleratorType) or (known and known.gpus):
        return None
    return {"type": kind, "count": machine.get("acceleratorCount", 0)}
