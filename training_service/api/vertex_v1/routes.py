"""All routes of Vertex AI's custom training."""

from __future__ import annotations

from training_service.access.roles import CUSTOM_JOB_CREATE, PIPELINE_CREATE, TUNING_JOB_CREATE
from training_service.api.routes import Routes
from training_service.api.vertex_v1.job_methods import CustomJobs
from training_service.api.vertex_v1.job_routes import jobs_router
from training_service.api.vertex_v1.locations import vertex_locations_router
from training_service.api.vertex_v1.operations import Operations, operations_router
from training_service.api.vertex_v1.pipelines.model_methods import Models
from training_service.api.vertex_v1.pipelines.models import models_router
from training_service.api.vertex_v1.pipelines.pipeline_methods import TrainingPipelines
from training_service.api.vertex_v1.tuning_methods import HyperparameterTuningJobs
from training_service.api.vertex_v1.unserved import unserved_router


def vertex_v1_routers(
    custom_jobs: CustomJobs,
    tuning_jobs: HyperparameterTuningJobs,
    pipelines: TrainingPipelines,
    models: Models,
    operations: Operations,
) -> list[Routes]:
    """Return the routes of the dialect."""
    return [
        jobs_router(custom_jobs, CUSTOM_JOB_CREATE),
        jobs_router(tuning_jobs, TUNING_JOB_CREATE),
        jobs_router(pipelines, PIPELINE_CREATE),
        models_router(models),
        operations_router(operations),
        vertex_locations_router(),
        # Last: it answers for every other path of the dialect.
        unserved_router(),
    ]
