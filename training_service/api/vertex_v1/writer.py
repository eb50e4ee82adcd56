"""From what the service knows of a job to the resource that clients read. Pure."""

from __future__ import annotations

from typing import Any

from training_api.dialects.vertex_v1.errors_of_jobs import job_error
from training_api.dialects.vertex_v1.job_states import JOB_STATES
from training_api.dialects.vertex_v1.names import COLLECTIONS, job_name, trial_job_id
from training_api.job.dialect import ResourceKind
from training_api.job.project_number import project_number
from training_api.states import JobState
from training_api.wire import format_timestamp
from training_service.model.records import JobRecord

CUSTOM_JOBS = COLLECTIONS[ResourceKind.JOB]
#: discovery: CustomJob.error "Only populated when job's state is JOB_STATE_FAILED or JOB_STATE_CANCELLED".
WITH_ERROR = frozenset({JobState.FAILED, JobState.CANCELLED})


def custom_job(record: JobRecord, tail: str = "") -> dict[str, Any]:
    """
    Return the CustomJob of a record, which may be a trial, in canonical JSON.

    :param tail: the end of what its failed replica wrote.
    """
    job_id = trial_job_id(record.uid) if record.trial else record.spec.job_id
    return job_resource(record, CUSTOM_JOBS, job_id, tail)


def job_resource(record: JobRecord, collection: str, job_id: str, tail: str = "") -> dict[str, Any]:
    """Return what was asked of a job, its state, its times and its error."""
    spec = record.spec
    times = {
        "createTime": record.created_at,
        "startTime": record.running_at,
        "endTime": record.ended_at,
        "updateTime": record.entered_at,
    }
    resource: dict[str, Any] = {
        "name": job_name(project_number(spec.project), spec.region, collection, job_id),
        **record.request,
        "state": JOB_STATES[record.state],
        **{name: format_timestamp(moment) for name, moment in times.items() if moment},
    }
    if record.reason and record.state in WITH_ERROR:
        resource["error"] = job_error(record.reason.cause, record.reason.message, spec.job_id, tail)
    return resource
