"""Errors for people: one sentence that says what is wrong, and one that says what to do."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse

from container_training.dashboard.airflow_side.connections import UnknownConnection
from container_training.dashboard.service_side.job_files import FolderUnreadable
from container_training.dashboard.service_side.questions import RefusedQuestion
from container_training.hooks.service_address import InvalidConnection
from container_training.work.job_buckets import BucketRefused
from training_api.errors import (
    AccessDenied,
    InvalidFilter,
    InvalidRequest,
    JobNotFound,
    NotTold,
    ServiceError,
    ServiceUnavailable,
    Throttled,
    TrainingError,
    TransportError,
)

#: Error -> status of our own answer, and what to do. The first that fits counts.
_ADVICE: tuple[tuple[type[TrainingError], int, str], ...] = (
    (
        UnknownConnection,
        404,
        "Choose a connection of the type Container training or Vertex AI training at the top of the page.",
    ),
    (InvalidConnection, 502, "Complete the connection: Admin, Connections."),
    (InvalidRequest, 400, "Change the filter, or clear it."),
    (InvalidFilter, 400, "Change the filter, or clear it."),
    (
        RefusedQuestion,
        400,
        (
            "Of dags: choose one DAG, or ask an administrator of Airflow for the right to read all. "
            "Of prices: correct the connection."
        ),
    ),
    (
        JobNotFound,
        404,
        "Look at the id and at the connection; jobs of DAGs that you may not read are not shown.",
    ),
    (
        AccessDenied,
        502,
        (
            "Airflow's connection is refused: its password must be a token that the service knows, with "
            "roles/training.airflow on the connection's project."
        ),
    ),
    (
        FolderUnreadable,
        502,
        (
            "The object store must answer, and Airflow's connection google_cloud_default must be allowed to "
            "list and read the bucket."
        ),
    ),
    (BucketRefused, 502, "Add the bucket to the connection, if its jobs are to have it: Admin, Connections."),
    (Throttled, 503, "The service has too much to do; the page asks again by itself."),
    (
        TransportError,
        503,
        (
            "Is the training service running, and are host and port of the connection right? The page asks "
            "again by itself."
        ),
    ),
    (NotTold, 501, "Choose another connection at the top of the page."),
    (ServiceUnavailable, 503, "The service is there but cannot answer now; the page asks again by itself."),
    (ServiceError, 502, "The service's log says more."),
    (TrainingError, 500, "The log of Airflow's API server says more."),
)


def problem_of(error: TrainingError) -> tuple[int, dict[str, str]]:
    """Return the HTTP status of our answer, and ``{"message": ..., "advice": ...}``. Pure."""
    status, advice = next((status, advice) for kind, status, advice in _ADVICE if isinstance(error, kind))
    return status, {"message": str(error), "advice": advice}


async def answer_problem(request: Request, error: Exception) -> JSONResponse:
    """Answer a request that ended in one of the project's errors."""
    assert isinstance(error, TrainingError)  # noqa: S101  # the only kind this handler is registered for
    status, problem = problem_of(error)
    return JSONResponse(problem, status_code=status)
