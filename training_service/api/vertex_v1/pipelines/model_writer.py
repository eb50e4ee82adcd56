"""From what the service knows of a model to the resource that clients read. Pure."""

from __future__ import annotations

from typing import Any

from training_api.dialects.vertex_v1.names import job_name
from training_api.job.project_number import project_number
from training_api.wire import format_timestamp
from training_service.model.pipelines import ModelRecord

MODELS = "models"
#: A model has one version.
VERSION_ID = "1"


def model_resource(record: ModelRecord) -> dict[str, Any]:
    """
    Return the Model of a record, in canonical JSON.

    It lists no type of resources for deployment, which says that it cannot be deployed.
    """
    number, place = project_number(record.project), record.location
    times = ("createTime", "updateTime", "versionCreateTime", "versionUpdateTime")
    pipeline = record.pipeline_id and job_name(number, place, "trainingPipelines", record.pipeline_id)
    return {
        "name": job_name(number, place, MODELS, record.model_id),
        **record.model,
        "versionId": VERSION_ID,
        **({"trainingPipeline": pipeline} if pipeline else {}),
        "modelSourceInfo": {"sourceType": "CUSTOM"},
        **dict.fromkeys(times, format_timestamp(record.created_at)),
    }
