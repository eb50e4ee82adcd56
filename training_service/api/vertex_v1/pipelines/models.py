"""``projects.locations.models`` of Vertex AI: left by pipelines, or uploaded by clients."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body, Query
from fastapi.responses import JSONResponse

from training_service.api.paths import PageSize, ProjectPath
from training_service.api.routes import Routes
from training_service.api.vertex_v1.answers import Answering, LocationPath
from training_service.api.vertex_v1.messages import OPERATION
from training_service.api.vertex_v1.paths import LOCATION
from training_service.api.vertex_v1.pipelines.model_methods import MESSAGE, Models
from training_service.api.vertex_v1.pipelines.model_writer import MODELS


def models_router(methods: Models) -> Routes:
    """
    Return the routes over ``methods``.

    They are plain functions: the store blocks, so they run on worker threads.
    """
    router = Routes(prefix=f"{LOCATION}/{MODELS}", tags=["Vertex AI: models"])

    @router.post(":upload")
    def upload(
        project: ProjectPath, location: LocationPath, body: Annotated[Any, Body()], answer: Answering
    ) -> JSONResponse:
        """Keep a note of a model that lies in Cloud Storage; the operation that is answered is done."""
        return answer(OPERATION, methods.upload(project, location, body))

    @router.get("")
    def list_models(
        project: ProjectPath,
        location: LocationPath,
        answer: Answering,
        filter_text: Annotated[str, Query(alias="filter")] = "",
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
        mask: Annotated[str, Query(alias="readMask")] = "",
        order_by: Annotated[str, Query(alias="orderBy")] = "",
    ) -> JSONResponse:
        """List the models of a location, newest first."""
        page = methods.list_page(
            project,
            location,
            filter_text=filter_text,
            page_size=page_size,
            page_token=page_token,
            mask=mask,
            order_by=order_by,
        )
        return answer("ListModelsResponse", page)

    @router.get("/{model_id}")
    def get(project: ProjectPath, location: LocationPath, model_id: str, answer: Answering) -> JSONResponse:
        """Describe a model, or its one version."""
        return answer(MESSAGE, methods.get(project, location, model_id))

    @router.delete("/{model_id}")
    def delete(
        project: ProjectPath, location: LocationPath, model_id: str, answer: Answering
    ) -> JSONResponse:
        """Delete a model, and not its files; the operation that is answered is done."""
        return answer(OPERATION, methods.delete(project, location, model_id))

    return router
