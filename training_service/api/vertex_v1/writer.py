"""From what the service knows of a job to the resource that clients read. Pure."""

from __future__ import annotations

from typing import Any

from training_api.dialects.vertex_v1.errors_of_jobs import job_error
from training_api.dialects.vertex_v1.job_states import JOB_STATES
from training_api.dialects.vertex_v1.names import job_name
from training_api.job.project_number import project_number
from training_api.states import JobState
from training_api.wire import format_timestamp
from training_service.model.records import JobRecord

CUSTOM_JOBS = "customJobs"
#: discovery: CustomJob.error "Only populated when job's state is JOB_STATE_FAILED or JOB_STATE_CANCELLED".
_WITH_ERROR = frozenset({JobState.FAILED, JobState.CANCELLED})


def custom_job(record: JobRecord, tail: str = "") -> dict[str, Any]:
    """
    Return the CustomJob of a record, in canonical JSON.

    :param tail: the end of what its failed replica wrote.
    """
    spec = record.spec
    times = {
        "createTime": record.created_at,
        "startTime": record.running_at,
        "endTime": record.ended_at,
        "updateTime": record.entered_at,
    }
    resource: dict[str, Any] = {
        "name": job_name(project_number(spec.project), spec.region, CUSTOM_JOBS, spec.job_id),
        **record.request,
        "state": JOB_STATES[record.state],
        **{name: format_timestamp(moment) for name, moment in times.items() if moment},
    }
    if record.reason and record.state in _WITH_ERROR:
        resource["error"] = job_error(record.reason.cause, record.reason.message, spec.job_id, tail)
    return resource
