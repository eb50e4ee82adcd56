"""AI Platform Training v1, as the service asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training_api.dialects.ml_v1.cluster import cluster_environment
from training_api.dialects.ml_v1.failure_words import failure_text, quota_text
from training_api.dialects.ml_v1.reader import NAME, read_request
from training_api.dialects.ml_v1.summary import summary
from training_api.dialects.ml_v1.trial_spec import trial_environment, trial_of
from training_api.job.cluster import replica_host
from training_api.job.dialect import Dialect, JobField, ReplicaContext, ReplicaFailure, Resource
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import RestartScope, is_retryable
from training_api.job.service_agent import ServiceAgent
from training_api.job.tuning.study_spec import DEFAULT_METRIC_TAG

_STUDY = "trainingInput.hyperparameters"
#: Source of the address and of the role: the guide, and [roles: ml]. The sentence is ours.
AGENT = ServiceAgent(
    domain="cloud-ml.google.com",
    role="roles/ml.serviceAgent",
    denied="permission denied: serviceAccount:{email} needs {role} on {resource} to pull it.",
)


def _environment(context: ReplicaContext) -> dict[str, str]:
    spec, request = context.spec, context.request
    cluster = cluster_environment(
        job_id=spec.job_id,
        replica=context.replica,
        replicas=[other.replica for other in spec.replicas],
        job_parameters=request,
        use_chief=spec.use_chief,
        trial_id=context.trial_id,
    )
    if not context.trial_id:
        return cluster
    return {**cluster, **trial_environment(_metric_tag(request), context.trial_id)}


def _metric_tag(request: Mapping[str, Any]) -> str:
    search = read_request(request).hyperparameters
    return (search.hyperparameter_metric_tag if search else None) or DEFAULT_METRIC_TAG


def _restart_scope(failure: ReplicaFailure) -> RestartScope:
    if failure.is_lost or failure.is_removed:
        return RestartScope.REPLICA
    passes = is_retryable(failure.exit_code or 0, out_of_memory=failure.out_of_memory)
    return RestartScope.REPLICA if passes else RestartScope.NONE


def _resource_name(resource: Resource) -> str:
    return f"projects/{resource.project}/jobs/{resource.id}"


def _as_asked(spec: JobSpec, request: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"labels": spec.labels} if spec.labels else {}
    return {"jobId": spec.job_id, **labels, "trainingInput": dict(request)}


ML_V1 = Dialect(
    name=NAME,
    title="AI Platform Training",
    environment=_environment,
    variables=frozenset({"CLUSTER_SPEC", "TF_CONFIG", "CLOUD_ML_TRIAL_ID", "CLOUD_ML_HP_METRIC_TAG"}),
    trial=trial_of,
    host_name=replica_host,
    restart_scope=_restart_scope,
    failure_text=failure_text,
    quota_text=quota_text,
    agent=AGENT,
    fields={
        "max_wait": "trainingInput.scheduling.maxWaitTime",
        "max_running": "trainingInput.scheduling.maxRunningTime",
        "study": _STUDY,
        "study.goal": f"{_STUDY}.goal",
        "study.metric_tag": f"{_STUDY}.hyperparameterMetricTag",
        "study.max_failed_trials": f"{_STUDY}.maxFailedTrials",
        "study.parameters": f"{_STUDY}.params",
        "study.resume_job_id": f"{_STUDY}.resumePreviousJobId",
        "packages.uris": "trainingInput.packageUris",
    },
    filter_fields={
        "jobId": JobField.JOB_ID,
        "state": JobField.STATE,
        "createTime": JobField.CREATED,
        "startTime": JobField.STARTED,
        "endTime": JobField.ENDED,
        "labels.": JobField.LABELS,
    },
    summary=summary,
    resource_name=_resource_name,
    as_asked=_as_asked,
)
