"""One job of any dialect in the ops API: to show it, and to end it."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from training_api.dialects.ml_v1.job_rows import JobDetail
from training_service.api.ops import OPS
from training_service.api.paths import ProjectPath
from training_service.api.routes import Routes
from training_service.use_cases.any_job import AnyJob


def ops_job_router(any_job: AnyJob) -> Routes:
    """
    Return the routes over ``any_job``.

    They are plain functions: the store blocks, so they run on worker threads.
    """
    router = Routes(prefix=f"{OPS}/jobs", tags=["ops"])

    @router.get("/{job_id}", response_model=JobDetail)
    def get(project: ProjectPath, job_id: str) -> JSONResponse:
        """Describe a job of any dialect, by its id or that of its pipeline."""
        return JSONResponse(any_job.detail(project, job_id))

    @router.post("/{job_id}:cancel")
    def cancel(project: ProjectPath, job_id: str) -> dict[str, Any]:
        """Cancel a job of any dialect; one that has ended is left as it is."""
        any_job.cancel(project, job_id)
        return {}

    return router
