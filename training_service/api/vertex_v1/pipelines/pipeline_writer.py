"""From what the service knows of a pipeline to the resource that clients read. Pure."""

from __future__ import annotations

from typing import Any

from training_api.dialects.vertex_v1.errors_of_jobs import job_error
from training_api.dialects.vertex_v1.names import COLLECTIONS, job_name
from training_api.dialects.vertex_v1.pipelines.reader import MODEL
from training_api.dialects.vertex_v1.pipelines.states import PIPELINE_STATES
from training_api.job.dialect import ResourceKind
from training_api.job.project_number import project_number
from training_api.states import JobState
from training_api.wire import format_timestamp
from training_service.api.vertex_v1.pipelines.model_writer import MODELS, VERSION_ID
from training_service.api.vertex_v1.writer import CUSTOM_JOBS, WITH_ERROR
from training_service.model.pipelines import PipelineRecord

TRAINING_PIPELINES = COLLECTIONS[ResourceKind.PIPELINE]


def training_pipeline(record: PipelineRecord, tail: str = "") -> dict[str, Any]:
    """
    Return the TrainingPipeline of a record, in canonical JSON.

    :param tail: the end of what its failed replica wrote.

    It names its job from the start: Airflow's operators look for the name when the pipeline has ended.
    """
    number, place = project_number(record.project), record.location
    times = {
        "createTime": record.created_at,
        "startTime": record.started_at,
        "endTime": record.ended_at,
        "updateTime": record.updated_at,
    }
    resource: dict[str, Any] = {
        "name": job_name(number, place, TRAINING_PIPELINES, record.pipeline_id),
        **record.request,
        "trainingTaskMetadata": {"backingCustomJob": job_name(number, place, CUSTOM_JOBS, record.job_id)},
        "state": PIPELINE_STATES[record.state],
        **{name: format_timestamp(moment) for name, moment in times.items() if moment},
    }
    if record.model_id and record.state is JobState.SUCCEEDED:
        model = {"name": job_name(number, place, MODELS, record.model_id), "versionId": VERSION_ID}
        resource[MODEL] = {**record.request[MODEL], **model}
    if record.reason and record.state in WITH_ERROR:
        resource["error"] = job_error(record.reason.cause, record.reason.message, record.job_id, tail)
    return resource
