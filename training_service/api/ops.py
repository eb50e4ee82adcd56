"""
``/ops/v1``: the API for dashboards, beside Google's own.

``training_api/fleet/wire.py`` says why.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import JSONResponse

from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.fleet.history import FleetHistory, FleetHistoryRequest
from training_api.fleet.wire import (
    CurvesResponse,
    FleetResponse,
    MeasurementsRequest,
    MeasurementsResponse,
    SearchJobsRequest,
    TimelineResponse,
    UsageResponse,
    VersionResponse,
)
from training_api.wire import WireModel
from training_service.api.paths import ProjectPath
from training_service.api.routes import Routes
from training_service.use_cases.fleet_reports import Reports

OPS = "/ops/v1/projects/{project}"


def ops_router(reports: Reports) -> Routes:
    """
    Return the routes over ``reports``.

    They are plain functions: the store blocks, so they run on worker threads.
    """
    router = Routes(prefix=OPS, tags=["ops"])

    @router.post("/jobs:search", response_model=SearchJobsResponse)
    def search(project: ProjectPath, request: SearchJobsRequest) -> JSONResponse:
        """List jobs as rows of a table, newest first, with totals."""
        return JSONResponse(reports.search(project, request))

    @router.get("/jobs/{job_id}/timeline", response_model=TimelineResponse)
    def timeline(project: ProjectPath, job_id: str) -> JSONResponse:
        """Show what took a job's time."""
        return _answer(reports.timeline(project, job_id))

    @router.get("/jobs/{job_id}/usage", response_model=UsageResponse)
    def usage(project: ProjectPath, job_id: str) -> JSONResponse:
        """Show the CPU and memory of a job's replicas."""
        return _answer(reports.usage(project, job_id))

    @router.get("/jobs/{job_id}/curves", response_model=CurvesResponse)
    def curves(project: ProjectPath, job_id: str) -> JSONResponse:
        """Show what a job and its trials reported."""
        return _answer(reports.curves(project, job_id))

    @router.get("/jobs/{job_id}/measurements", response_model=MeasurementsResponse)
    def measurements(
        project: ProjectPath, job_id: str, asked: Annotated[MeasurementsRequest, Query()]
    ) -> JSONResponse:
        """List all values that a job, or one of its trials, reported under a tag, oldest first."""
        return _answer(reports.measurements(project, job_id, asked))

    @router.get("/fleet", response_model=FleetResponse)
    def fleet(project: ProjectPath) -> JSONResponse:
        """Show capacity, use and queue."""
        return _answer(reports.fleet(project))

    @router.post("/fleet:history", response_model=FleetHistory)
    def history(project: ProjectPath, request: FleetHistoryRequest) -> JSONResponse:
        """Show use, waits, failures and costs of a time until now."""
        return _answer(reports.history(project, request))

    @router.get("/version", response_model=VersionResponse)
    def version(project: ProjectPath) -> JSONResponse:
        """Show a text that changes with every change of a job."""
        return _answer(reports.version(project))

    return router


def _answer(answer: WireModel) -> JSONResponse:
    return JSONResponse(answer.to_wire())
