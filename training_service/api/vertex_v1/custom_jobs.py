"""``projects.locations.customJobs`` of Vertex AI."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse

from training_api.dialects.vertex_v1.names import job_name
from training_service.access.roles import CUSTOM_JOB_CREATE
from training_service.api.access import CurrentCaller
from training_service.api.middleware.audit_log import Deed, note_deed
from training_service.api.paths import PageSize, ProjectPath
from training_service.api.vertex_v1.answers import Answering, LocationPath
from training_service.api.vertex_v1.canonical import canonical
from training_service.api.vertex_v1.job_methods import MESSAGE, CustomJobs
from training_service.api.vertex_v1.messages import OPERATION
from training_service.api.vertex_v1.paths import LOCATION
from training_service.api.vertex_v1.writer import CUSTOM_JOBS


def custom_jobs_router(methods: CustomJobs) -> APIRouter:
    """
    Return the routes over ``methods``.

    They are plain functions: the store blocks, so they run on worker threads.
    """
    router = APIRouter(prefix=f"{LOCATION}/{CUSTOM_JOBS}", tags=["Vertex AI: customJobs"])

    @router.post("")
    def create(
        project: ProjectPath,
        location: LocationPath,
        body: Annotated[Any, Body()],
        caller: CurrentCaller,
        answer: Answering,
        request: Request,
    ) -> JSONResponse:
        """Submit a job; the service gives it an id."""
        created = methods.create(project, location, body, caller)
        name = job_name(project, location, CUSTOM_JOBS, created["name"].rpartition("/")[2])
        note_deed(request, Deed(permission=CUSTOM_JOB_CREATE, resource=name))
        return answer(MESSAGE, created)

    @router.get("")
    def list_jobs(
        project: ProjectPath,
        location: LocationPath,
        answer: Answering,
        filter_text: Annotated[str, Query(alias="filter")] = "",
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
        mask: Annotated[str, Query(alias="readMask")] = "",
    ) -> JSONResponse:
        """List the jobs of a location, newest first."""
        page = methods.list_page(
            project, location, filter_text=filter_text, page_size=page_size, page_token=page_token, mask=mask
        )
        return answer("ListCustomJobsResponse", page)

    @router.get("/{job_id}")
    def get(project: ProjectPath, location: LocationPath, job_id: str, answer: Answering) -> JSONResponse:
        """Describe a job."""
        return answer(MESSAGE, methods.get(project, location, job_id))

    @router.post("/{job_id}:cancel")
    def cancel(
        project: ProjectPath, location: LocationPath, job_id: str, body: Annotated[Any, Body()] = None
    ) -> dict[str, Any]:
        """Cancel a job; one that has ended is left as it is."""
        canonical("CancelCustomJobRequest", body or {})
        return methods.cancel(project, location, job_id)

    @router.delete("/{job_id}")
    def delete(project: ProjectPath, location: LocationPath, job_id: str, answer: Answering) -> JSONResponse:
        """Delete a job that has ended; the operation that is answered is done."""
        return answer(OPERATION, methods.delete(project, location, job_id))

    return router
