"""Pipelines in the database of a world, with the jobs that are made for them."""

from __future__ import annotations

from typing import Any

from tests.support.fakes.custom_jobs import make_pool
from tests.support.fakes.training_pipelines import MODEL, WITH_BASE, make_pipeline
from tests.support.fakes.world import IMAGE, PROJECT, World
from training_api.dialects.vertex_v1.pipelines.model_rules import trained
from training_api.dialects.vertex_v1.pipelines.reader import job_of_pipeline
from training_service.model.pipelines import NewPipeline
from training_service.model.records import JobRecord

LOCATION = "us-central1"


def store_pipeline(
    world: World, number: int = 1, *, location: str = LOCATION, has_model: bool = False, **more: Any
) -> JobRecord:
    """Store a pipeline with job ``100 + number``, and maybe of model ``200 + number``."""
    model = {"modelToUpload": MODEL} if has_model else {}
    request = make_pipeline(make_pool(imageUri=IMAGE), job_spec=WITH_BASE, **model, **more)
    spec, job_request = job_of_pipeline(PROJECT, location, str(100 + number), request)
    pipeline = NewPipeline(
        pipeline_id=str(number),
        request=request,
        model_id=str(200 + number) if has_model else "",
        model=trained(MODEL, WITH_BASE) if has_model else {},
    )
    return world.store.insert(spec, job_request, pipeline=pipeline)
