"""Vertex AI's custom training, as the service asks for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training_api.dialects.vertex_v1.environment import VARIABLES, environment, host_name
from training_api.dialects.vertex_v1.failure_words import (
    failure_text,
    quota_text,
    replica_name,
    restart_scope,
)
from training_api.dialects.vertex_v1.filters import read_filter
from training_api.dialects.vertex_v1.names import COLLECTIONS, job_name
from training_api.dialects.vertex_v1.pool_tasks import BUCKET_FOLDER
from training_api.dialects.vertex_v1.pools import ROLES
from training_api.dialects.vertex_v1.reader import NAME
from training_api.dialects.vertex_v1.summary import summary
from training_api.dialects.vertex_v1.trial_spec import trial_of
from training_api.dialects.vertex_v1.variables import expanded
from training_api.job.dialect import Dialect, JobField, Resource
from training_api.job.job_spec import JobSpec
from training_api.job.project_number import project_number
from training_api.job.service_agent import ServiceAgent

_STUDY = "studySpec"
#: The custom code service agent (contract B7), which pulls images although the job names another account.
#: Source of the sentence: captured by users (contract D); of the role: [roles: aiplatform].
AGENT = ServiceAgent(
    domain="gcp-sa-aiplatform-cc",
    role="roles/aiplatform.customCodeServiceAgent",
    denied=(
        "Vertex AI Service Agent {email} does not have permission to access Artifact Registry repository "
        "{resource}."
    ),
)


def _resource_name(resource: Resource) -> str:
    number = project_number(resource.project)
    return job_name(number, resource.region, COLLECTIONS[resource.kind], resource.id)


def _as_asked(spec: JobSpec, request: Mapping[str, Any]) -> dict[str, Any]:
    return {**request, "labels": spec.labels} if spec.labels else dict(request)


def _display_name(request: Mapping[str, Any]) -> str:
    return str(request.get("displayName", ""))


VERTEX_V1 = Dialect(
    name=NAME,
    title="Vertex AI",
    environment=environment,
    variables=VARIABLES,
    expanded=expanded,
    trial=trial_of,
    host_name=host_name,
    task_name=replica_name,
    replica_name=replica_name,
    restart_scope=restart_scope,
    failure_text=failure_text,
    quota_text=quota_text,
    agent=AGENT,
    fields={
        "study": _STUDY,
        "study.goal": f"{_STUDY}.metrics[0].goal",
        "study.metric_tag": f"{_STUDY}.metrics[0].metricId",
        "study.max_failed_trials": "maxFailedTrialCount",
        "study.parameters": f"{_STUDY}.parameters",
        "max_wait": "jobSpec.scheduling.maxWaitDuration",
        "max_running": "jobSpec.scheduling.timeout",
        **{
            f"installs.{role}.uris": f"jobSpec.workerPoolSpecs[{place}].pythonPackageSpec.packageUris"
            for place, role in enumerate(ROLES)
        },
    },
    read_filter=read_filter,
    filter_fields={
        "display_name": JobField.DISPLAY_NAME,
        "state": JobField.STATE,
        "create_time": JobField.CREATED,
        "labels.": JobField.LABELS,
    },
    summary=summary,
    resource_name=_resource_name,
    as_asked=_as_asked,
    display_name=_display_name,
    bucket_folder=BUCKET_FOLDER,
)
