"""``projects.locations.trainingPipelines`` of Vertex AI."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse

from training_api.dialects.vertex_v1.names import job_name
from training_service.access.roles import PIPELINE_CREATE
from training_service.api.access import CurrentCaller
from training_service.api.middleware.audit_log import Deed, note_deed
from training_service.api.paths import PageSize, ProjectPath
from training_service.api.vertex_v1.answers import Answering, LocationPath
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.messages import OPERATION
from training_service.api.vertex_v1.paths import LOCATION
from training_service.api.vertex_v1.pipelines.pipeline_methods import MESSAGE, TrainingPipelines
from training_service.api.vertex_v1.pipelines.pipeline_writer import TRAINING_PIPELINES


def training_pipelines_router(methods: TrainingPipelines) -> APIRouter:
    """
    Return the routes over ``methods``.

    They are plain functions: the store blocks, so they run on worker threads.
    """
    router = APIRouter(prefix=f"{LOCATION}/{TRAINING_PIPELINES}", tags=["Vertex AI: trainingPipelines"])

    @router.post("")
    def create(
        project: ProjectPath,
        location: LocationPath,
        body: Annotated[Any, Body()],
        caller: CurrentCaller,
        answer: Answering,
        request: Request,
    ) -> JSONResponse:
        """Submit a pipeline, which is a job and perhaps a model; the service gives it an id."""
        created = methods.create(project, location, body, caller)
        name = job_name(project, location, TRAINING_PIPELINES, created["name"].rpartition("/")[2])
        note_deed(request, Deed(permission=PIPELINE_CREATE, resource=name))
        return answer(MESSAGE, created)

    @router.get("")
    def list_pipelines(
        project: ProjectPath,
        location: LocationPath,
        answer: Answering,
        filter_text: Annotated[str, Query(alias="filter")] = "",
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
        mask: Annotated[str, Query(alias="readMask")] = "",
    ) -> JSONResponse:
        """List the pipelines of a location, newest first."""
        page = methods.list_page(
            project, location, filter_text=filter_text, page_size=page_size, page_token=page_token, mask=mask
        )
        return answer("ListTrainingPipelinesResponse", page)

    @router.get("/{pipeline_id}")
    def get(
        project: ProjectPath, location: LocationPath, pipeline_id: str, answer: Answering
    ) -> JSONResponse:
        """Describe a pipeline."""
        return answer(MESSAGE, methods.get(project, location, pipeline_id))

    @router.post("/{pipeline_id}:cancel")
    def cancel(
        project: ProjectPath, location: LocationPath, pipeline_id: str, body: Annotated[Any, Body()] = None
    ) -> dict[str, Any]:
        """Cancel a pipeline; one that has ended is left as it is."""
        canonical("CancelTrainingPipelineRequest", body or {})
        return methods.cancel(project, location, pipeline_id)

    @router.delete("/{pipeline_id}")
    def delete(
        project: ProjectPath, location: LocationPath, pipeline_id: str, answer: Answering
    ) -> JSONResponse:
        """Delete a pipeline that has ended; the operation that is answered is done."""
        return answer(OPERATION, methods.delete(project, location, pipeline_id))

    return router
