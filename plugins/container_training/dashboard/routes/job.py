"""
The API of the page of one job.

Each route first checks whether the user may see the job.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, HTTPException, Path

from container_training.airflow_internals.database import airflow_database
from container_training.dashboard.access import RightsDep
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID, Service
from container_training.dashboard.airflow_side.origins import find_origins, find_run
from container_training.dashboard.answers import Answers
from container_training.dashboard.routes.jobs import ConnId
from container_training.dashboard.service_side.job_details import (
    explanation_view,
    images_view,
    person_view,
    request_view,
    results_folder,
    trials_view,
)
from container_training.dashboard.service_side.job_files import folder_view
from container_training.dashboard.service_side.job_query import quoted
from container_training.dashboard.shared import ANSWERS, SERVICES, readable_job
from container_training.dashboard.views.series import curves_view, usage_view
from container_training.dashboard.views.timeline import timeline_view
from container_training.dashboard.views.views import job_view
from container_training.work.results.plots.trial_plots import best_so_far, parallel_coordinates
from training_api.dialects.ml_v1.job_rows import JobRow
from training_api.dialects.ml_v1.trials import study_of, trial_rows
from training_api.errors import JobNotFound
from training_api.fleet.wire import SearchJobsRequest, Span
from training_api.wire import format_timestamp

router = APIRouter(prefix="/api/jobs/{job_id}", include_in_schema=False)
JobId = Annotated[str, Path(max_length=128)]
_PLOTS = {"parallel-coordinates": parallel_coordinates, "best-so-far": best_so_far}
#: Samples and files need not be newer than this; pages ask for them every few seconds.
_SLOW_ANSWERS = Answers(keep_seconds=2.0)
_T = TypeVar("_T")


@router.get("")
def job(
    job_id: JobId,
    rights: RightsDep,
    conn_id: ConnId = DEFAULT_CONN_ID,
    version: str = "",
) -> dict[str, Any]:
    """Return the job: its row as in the list, request, images, trials, and why it failed."""
    service = SERVICES.get(conn_id)
    found = readable_job(service, job_id, rights, version)
    row = _row(service, job_id, version)
    now = datetime.now(UTC)
    with airflow_database() as session:
        origin = find_origins([row], rights, session).get(job_id)
        run = find_run(origin, session)
    return {
        "now": format_timestamp(now),
        "job": job_view(
            row, now, service.prices, origin=origin, may_cancel=rights.may_cancel(found.labels or {})
        ),
        "startTime": format_timestamp(row.start_time) if row.start_time else None,
        "startedBy": person_view(run),
        "explanation": explanation_view(row),
        "request": request_view(found),
        "args": (found.training_input and found.training_input.args) or [],
        "images": images_view(found, _spans(service, job_id, version)),
        "labels": found.labels or {},
        "jobDir": (found.training_input and found.training_input.job_dir) or None,
        "study": trials_view(found, now, service.prices),
        "priceProblem": service.price_problem,
    }


@router.get("/timeline")
def timeline(
    job_id: JobId, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID, version: str = ""
) -> dict[str, Any]:
    """Return the job's time: phases, pulls, and a lane a replica."""
    service = SERVICES.get(conn_id)
    readable_job(service, job_id, rights, version)
    spans = _spans(service, job_id, version)
    return timeline_view(_row(service, job_id, version), spans, datetime.now(UTC))


@router.get("/usage")
def usage(job_id: JobId, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID) -> dict[str, Any]:
    """Return what the job's replicas use of cores and memory."""
    service = SERVICES.get(conn_id)
    readable_job(service, job_id, rights)
    return {
        "series": _ask(service, "usage", job_id, "", lambda: usage_view(service.ops.usage(job_id).series))
    }


@router.get("/curves")
def curves(job_id: JobId, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID) -> dict[str, Any]:
    """Return the metrics that the job, or its trials, reported so far."""
    service = SERVICES.get(conn_id)
    study = study_of(readable_job(service, job_id, rights))
    objective = study.metric_tag if study else None
    view = _ask(
        service, "curves", job_id, "", lambda: curves_view(service.ops.curves(job_id).curves, objective)
    )
    return {"metrics": view}


@router.get("/plots/{name}")
def plot(
    job_id: JobId, name: str, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID, version: str = ""
) -> dict[str, Any]:
    """
    Return a plot of the trials, as a Vega-Lite specification.

    :raises HTTPException: 404, there is no such plot, or the job has no trials.
    """
    found = readable_job(SERVICES.get(conn_id), job_id, rights, version)
    study, draw = study_of(found), _PLOTS.get(name)
    if study is None or draw is None:
        raise HTTPException(404, f"there is no plot {name!r} of job {job_id!r}")
    return draw(job_id, study, trial_rows(found, datetime.now(UTC)))


@router.get("/files")
def files(
    job_id: JobId, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID, version: str = ""
) -> dict[str, Any]:
    """
    Return what the job has written below its jobDir, and its metrics.

    :raises FolderUnreadable: the folder cannot be read; the error says why.
    :raises BucketRefused: it is in a bucket that is not one of the connection's jobs.
    """
    service = SERVICES.get(conn_id)
    found = readable_job(service, job_id, rights, version)
    job_dir = found.training_input and found.training_input.job_dir
    if not job_dir:
        return {"folder": None, "files": [], "isCut": False, "metrics": None}
    results = results_folder(found, datetime.now(UTC))
    return _ask(service, "files", job_id, version, lambda: folder_view(job_dir, results, service.job_buckets))


def _row(service: Service, job_id: str, version: str) -> JobRow:
    """Return the job's row. :raises JobNotFound: it was there a moment ago, and is not any more."""
    request = SearchJobsRequest(filter=f"jobId={quoted(job_id)}", page_size=1)
    found = ANSWERS.get((service.conn_id, "row", job_id, version), lambda: service.ops.search_jobs(request))
    if not found.jobs:
        raise JobNotFound(f"there is no job {job_id!r}")
    return found.jobs[0]


def _spans(service: Service, job_id: str, version: str) -> list[Span]:
    return _ask(service, "timeline", job_id, version, lambda: service.ops.timeline(job_id)).spans


def _ask(service: Service, what: str, job_id: str, version: str, ask: Callable[[], _T]) -> _T:
    return _SLOW_ANSWERS.get((service.conn_id, what, job_id, version), ask)
