"""
What a replica is told of its job: CLUSTER_SPEC, TF_CONFIG and more. Pure.

CLUSTER_SPEC is in every replica, and names the evaluators, too; TF_CONFIG only in jobs of several replicas,
and does not [docs: training/distributed-training]. The value of ``job`` is the captured one, a text: the page
says that it is the CustomJobSpec. ``task.cloud`` is left out, as nothing reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from training_api.dialects.vertex_v1.pool_tasks import task_of
from training_api.dialects.vertex_v1.pools import ROLES, pool_name
from training_api.dialects.vertex_v1.variables import variables_of
from training_api.job.cluster import CLUSTER_PORT, ReplicaId, ReplicaRole, host_label
from training_api.job.dialect import ReplicaContext
from training_api.job.project_number import project_number

_TF_NAMES = {
    ReplicaRole.MASTER: "chief",
    ReplicaRole.WORKER: "worker",
    ReplicaRole.PARAMETER_SERVER: "ps",
    ReplicaRole.EVALUATOR: "evaluator",
}
_POOL_NAMES = {role: pool_name(role) for role in ROLES}
#: Of each variable for outputs, the folder below the base [discovery: CustomJobSpec.baseOutputDirectory].
_FOLDERS = {"AIP_MODEL_DIR": "model", "AIP_CHECKPOINT_DIR": "checkpoints", "AIP_TENSORBOARD_LOG_DIR": "logs"}
#: All names that ``environment`` may set, beside those that a request gives.
VARIABLES = frozenset(
    {"CLUSTER_SPEC", "TF_CONFIG", "CLOUD_ML_PROJECT_ID", "CLOUD_ML_JOB_ID", "CLOUD_ML_REGION"}
    | {"CLOUD_ML_TRIAL_ID", *_FOLDERS}
)


def environment(context: ReplicaContext) -> dict[str, str]:
    """Return the variables of a replica: the service's, then those of its pool's ``env``."""
    spec = context.spec
    cluster = {"CLUSTER_SPEC": _description(context, _POOL_NAMES, ROLES)}
    if len(spec.replicas) > 1:
        cluster["TF_CONFIG"] = _description(context, _TF_NAMES, ROLES[:-1])
    variables = {
        **context.given,
        **cluster,
        **output_folders(spec.output_dir),
        "CLOUD_ML_PROJECT_ID": str(project_number(spec.project)),
        "CLOUD_ML_JOB_ID": spec.job_id,
        "CLOUD_ML_REGION": spec.region,
        **({"CLOUD_ML_TRIAL_ID": context.trial_id} if context.trial_id else {}),
    }
    return variables_of(_task(context).get("env", []), variables)


def host_name(job_id: str, replica: ReplicaId) -> str:
    """
    Return the host name of ``replica`` in its job's network.

    ``cmle-training-workerpool0-1a2b3c4d5e-0``, as captured in public trainers' logs.
    """
    return host_label(_POOL_NAMES[replica.role], job_id, replica.index)


def _description(
    context: ReplicaContext, names: Mapping[ReplicaRole, str], shown: Iterable[ReplicaRole]
) -> str:
    spec, replica = context.spec, context.replica
    cluster: dict[str, list[str]] = {}
    for role in shown:
        hosts = [each.replica for each in spec.replicas if each.replica.role is role]
        if hosts:
            cluster[names[role]] = [f"{host_name(spec.job_id, each)}:{CLUSTER_PORT}" for each in hosts]
    task = {"type": names[replica.role], "index": replica.index}
    if context.trial_id:  # captured values of jobs that do not tune have no such key
        task["trial"] = context.trial_id
    description = {"cluster": cluster, "environment": "cloud", "task": task, "job": _job(context)}
    return json.dumps(description, separators=(",", ":"))


def output_folders(output_dir: str) -> dict[str, str]:
    """Return the variables for outputs; none without a ``baseOutputDirectory``."""
    if not output_dir:
        return {}
    base = output_dir.rstrip("/")
    return {name: f"{base}/{folder}/" for name, folder in _FOLDERS.items()}


def _task(context: ReplicaContext) -> Mapping[str, Any]:
    return task_of(context.request["jobSpec"]["workerPoolSpecs"][ROLES.index(context.replica.role)])


def _job(context: ReplicaContext) -> str:
    task = _task(context)
    is_package = "pythonModule" in task  # captured values of jobs of containers are empty
    job = {
        "python_module": task.get("pythonModule", ""),
        "package_uris": task.get("packageUris", []),
        "job_args": task.get("args", []) if is_package else [],
    }
    return json.dumps(job, separators=(",", ":"))
