"""
The API of the page of one job.

Each route first checks whether the user may see the job.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException

from container_training.airflow_internals.database import airflow_database
from container_training.dashboard.access import RightsDep
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID, Service
from container_training.dashboard.airflow_side.origins import find_origins, find_run
from container_training.dashboard.routes.jobs import ConnId
from container_training.dashboard.service_side.job_details import (
    explanation_view,
    images_view,
    person_view,
    results_folder,
    trials_view,
)
from container_training.dashboard.service_side.job_files import folder_view
from container_training.dashboard.shared import SERVICES, readable_job
from container_training.dashboard.views.series import curves_view, usage_view
from container_training.dashboard.views.timeline import timeline_view
from container_training.dashboard.views.views import job_view
from container_training.work.results.plots.trial_plots import best_so_far, parallel_coordinates
from training_api.clients.shared_answers import Answers
from training_api.fleet.job_detail import trial_rows
from training_api.fleet.wire import Span
from training_api.wire import format_timestamp

router = APIRouter(prefix="/api/jobs/{job_id}", include_in_schema=False)
#: Takes names with slashes, and so all that no other route has taken.
name_router = APIRouter(prefix="/api/jobs", include_in_schema=False)
_PLOTS = {"parallel-coordinates": parallel_coordinates, "best-so-far": best_so_far}
#: Samples and files need not be newer than this; pages ask for them every few seconds.
_SLOW_ANSWERS = Answers(keep_seconds=2.0)
_T = TypeVar("_T")


@name_router.get("/{name:path}")
def job(
    name: str,
    rights: RightsDep,
    conn_id: ConnId = DEFAULT_CONN_ID,
    version: str = "",
) -> dict[str, Any]:
    """
    Return the job: its row as in the list, request, images, trials, and why it failed.

    :param name: its id, that of its pipeline, or the resource name of either.
    """
    service = SERVICES.get(conn_id)
    found = readable_job(service, name, rights, version)
    row = found.job
    now = datetime.now(UTC)
    with airflow_database() as session:
        origin = find_origins([row], rights, session).get(row.job_id)
        run = find_run(origin, session)
    return {
        "now": format_timestamp(now),
        "job": job_view(row, now, service.prices, origin=origin, may_cancel=rights.may_cancel(row.labels)),
        "startTime": format_timestamp(row.start_time) if row.start_time else None,
        "startedBy": person_view(run),
        "explanation": explanation_view(row),
        "name": found.name,
        "pipeline": found.pipeline.to_wire() if found.pipeline else None,
        "request": found.request,
        "pools": [pool.to_wire() for pool in found.pools],
        "images": images_view(found, _spans(service, row.job_id, version)),
        "labels": row.labels,
        "region": found.region or None,
        "limits": {"wait": found.max_wait_seconds, "run": found.max_running_seconds},
        "folder": found.output_dir or None,
        "study": trials_view(found, now, service.prices),
        "hasSeries": service.ops.has_series,
        "priceProblem": service.price_problem,
    }


@router.get("/timeline")
def timeline(
    job_id: str, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID, version: str = ""
) -> dict[str, Any]:
    """Return the job's time: phases, pulls, and a lane a replica."""
    service = SERVICES.get(conn_id)
    row = readable_job(service, job_id, rights, version).job
    return timeline_view(row, _spans(service, row.job_id, version), datetime.now(UTC))


@router.get("/usage")
def usage(job_id: str, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID) -> dict[str, Any]:
    """Return what the job's replicas use of cores and memory."""
    service = SERVICES.get(conn_id)
    own_id = readable_job(service, job_id, rights).job.job_id
    return {
        "series": _ask(service, "usage", own_id, "", lambda: usage_view(service.ops.usage(own_id).series))
    }


@router.get("/curves")
def curves(job_id: str, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID) -> dict[str, Any]:
    """Return the metrics that the job, or its trials, reported so far."""
    service = SERVICES.get(conn_id)
    found = readable_job(service, job_id, rights)
    own_id, objective = found.job.job_id, found.study.metric_tag if found.study else None
    view = _ask(
        service, "curves", own_id, "", lambda: curves_view(service.ops.curves(own_id).curves, objective)
    )
    return {"metrics": view}


@router.get("/plots/{name}")
def plot(
    job_id: str, name: str, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID, version: str = ""
) -> dict[str, Any]:
    """
    Return a plot of the trials, as a Vega-Lite specification.

    :raises HTTPException: 404, there is no such plot, or the job has no trials.
    """
    found = readable_job(SERVICES.get(conn_id), job_id, rights, version)
    draw = _PLOTS.get(name)
    if found.study is None or draw is None:
        raise HTTPException(404, f"there is no plot {name!r} of job {job_id!r}")
    title = found.job.display_name or found.job.job_id
    return draw(title, found.study.spec, trial_rows(found.trials, datetime.now(UTC)))


@router.get("/files")
def files(
    job_id: str, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID, version: str = ""
) -> dict[str, Any]:
    """
    Return what the job has written below its folder, and its metrics.

    :raises FolderUnreadable: the folder cannot be read; the error says why.
    :raises BucketRefused: it is in a bucket that is not one of the connection's jobs.
    """
    service = SERVICES.get(conn_id)
    found = readable_job(service, job_id, rights, version)
    folder = found.output_dir
    if not folder:
        return {"folder": None, "files": [], "isCut": False, "metrics": None}
    results = results_folder(found, datetime.now(UTC))
    return _ask(
        service,
        "files",
        found.job.job_id,
        version,
        lambda: folder_view(folder, results, service.job_buckets),
    )


def _spans(service: Service, job_id: str, version: str) -> list[Span]:
    return _ask(service, "timeline", job_id, version, lambda: service.ops.timeline(job_id)).spans


def _ask(service: Service, what: str, job_id: str, version: str, ask: Callable[[], _T]) -> _T:
    return _SLOW_ANSWERS.get((service.conn_id, what, job_id, version), ask)
