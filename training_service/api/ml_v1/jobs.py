"""``projects.jobs`` of the v1 API."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import JSONResponse

from training_api.dialects.ml_v1.resources import Job, ListJobsResponse
from training_api.job.secret_refs import secret_refs
from training_api.wire import WireModel
from training_service.access.control import AccessControl
from training_service.access.roles import ACT_AS, JOB_CREATE, SECRET_ACCESS
from training_service.api.access import CurrentCaller
from training_service.api.middleware.audit_log import Deed, note_deed
from training_service.api.ml_v1.wire_jobs import WireJobs
from training_service.api.openapi import errors
from training_service.api.paths import PageSize, ProjectPath
from training_service.api.routes import Routes
from training_service.model.resources import account_resource


class CancelJobRequest(WireModel):
    """``GoogleCloudMlV1__CancelJobRequest``: it has no fields."""


def jobs_router(jobs: WireJobs, access: AccessControl) -> Routes:
    """
    Return the routes over ``jobs``.

    They are plain functions: the store blocks, so they run on worker threads.
    """
    router = Routes(prefix="/v1/projects/{project}", tags=["projects.jobs"])

    @router.post("/jobs", response_model=Job, responses=errors(409))
    def create(project: ProjectPath, job: Job, caller: CurrentCaller, request: Request) -> JSONResponse:
        """Submit a job; it belongs to the caller."""
        note_deed(request, Deed(permission=JOB_CREATE, resource=f"projects/{project}/jobs/{job.job_id}"))
        if job.training_input and job.training_input.service_account:
            access.check(caller, ACT_AS, account_resource(job.training_input.service_account))
        if secret_refs(job.labels or {}):
            access.check(caller, SECRET_ACCESS, f"projects/{project}")
        return _answer(jobs.create(project, job, owner=caller.principal))

    @router.get("/jobs", response_model=ListJobsResponse)
    def list_jobs(
        project: ProjectPath,
        filter_text: Annotated[str, Query(alias="filter")] = "",
        page_size: PageSize = 0,
        page_token: Annotated[str, Query(alias="pageToken")] = "",
    ) -> JSONResponse:
        """List jobs, newest first."""
        return _answer(jobs.list_page(project, filter_text, page_size, page_token))

    @router.get("/jobs/{job_id}", response_model=Job)
    def get(project: ProjectPath, job_id: str) -> JSONResponse:
        """Describe a job."""
        return _answer(jobs.get(project, job_id))

    @router.patch("/jobs/{job_id}", response_model=Job, responses=errors(409))
    def patch(
        project: ProjectPath,
        job_id: str,
        job: Job,
        update_mask: Annotated[str, Query(alias="updateMask")] = "",
        update_mask_snake: Annotated[str, Query(alias="update_mask", include_in_schema=False)] = "",
    ) -> JSONResponse:
        """Replace a job's labels."""
        return _answer(jobs.patch(project, job_id, job, update_mask or update_mask_snake))

    @router.post("/jobs/{job_id}:cancel")
    def cancel(project: ProjectPath, job_id: str, _: CancelJobRequest | None = None) -> dict[str, Any]:
        """Cancel a job; one that has ended is left as it is."""
        jobs.cancel(project, job_id)
        return {}

    return router


def _answer(resource: WireModel) -> JSONResponse:
    return JSONResponse(resource.to_wire())
