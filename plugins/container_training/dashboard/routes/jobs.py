"""What the list of jobs asks for: rows, choices, and the cancelling of a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from container_training.airflow_internals.database import airflow_database
from container_training.dashboard.access import REQUIRES_OWN_PAGE, ConnectionsDep, RightsDep
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID, Service
from container_training.dashboard.airflow_side.origins import find_origins
from container_training.dashboard.airflow_side.rights import Rights
from container_training.dashboard.service_side.job_query import PAGE_SIZE, JobQuery
from container_training.dashboard.service_side.questions import question
from container_training.dashboard.shared import ANSWERS, SERVICES, readable_job
from container_training.dashboard.views.views import job_view, state_counts
from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.fleet.wire import SearchJobsRequest
from training_api.states import JobState
from training_api.wire import format_timestamp

router = APIRouter(prefix="/api", include_in_schema=False)
ConnId = Annotated[str, Query(max_length=250)]


@router.get("/connections")
def connections(visible: ConnectionsDep) -> dict[str, Any]:
    """Return the connections to choose from; none for those who may not see connections."""
    return {"connections": visible, "default": DEFAULT_CONN_ID}


@router.get("/dags")
def dags(rights: RightsDep) -> dict[str, Any]:
    """Return the ids of the DAGs that the person may read."""
    return {"dags": sorted(rights.readable)}


@router.get("/jobs")
def jobs(
    rights: RightsDep,
    conn_id: ConnId = DEFAULT_CONN_ID,
    state: Annotated[list[JobState] | None, Query()] = None,
    dag: str = "",
    label: str = "",
    name: str = "",
    since: str = "",
    start: Annotated[str, Query(alias="from")] = "",
    end: Annotated[str, Query(alias="to")] = "",
    after: str = "",
    version: str = "",
) -> dict[str, Any]:
    """
    Return one page of the jobs that the person may see, with the counts of each state.

    :param after: where the page begins: ``next`` of the one before it.
    :param version: the newest that the page knows of; an answer from before it does not serve.
    """
    service = SERVICES.get(conn_id)
    now = datetime.now(UTC)
    query = JobQuery(
        states=tuple(state or ()), dag=dag, label=label, name=name, since=since, start=start, end=end
    )
    wanted = query.dags(rights.labels)
    request = question(
        SearchJobsRequest, filter=query.filter(now), dags=wanted, page_size=PAGE_SIZE, page_token=after
    )
    found = _search(service, request, version)
    states = found.states
    if query.states:
        # The counts beside the choices are of all states, not only of those that are chosen.
        everything = query.filter(now, with_states=False)
        request = question(SearchJobsRequest, filter=everything, dags=wanted, page_size=1)
        states = _search(service, request, version).states
    return {
        "now": format_timestamp(now),
        "jobs": _rows(found, service, rights, now),
        "total": found.total,
        "states": state_counts(states),
        "next": found.next_page_token,
        "pageSize": PAGE_SIZE,
        "isAll": rights.reads_all,
        "hasPrices": bool(service.prices.per_second),
        "priceProblem": service.price_problem,
    }


@router.post("/jobs/{job_id}/cancel", dependencies=[REQUIRES_OWN_PAGE])
def cancel(job_id: str, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID) -> dict[str, Any]:
    """
    Ask the job to end.

    :raises JobNotFound: there is none, or the person may not see it; the two cannot be told apart.
    :raises HTTPException: 403, the person may see it but not change its DAG's tasks.
    """
    service = SERVICES.get(conn_id)
    job = readable_job(service, job_id, rights).job
    if not rights.may_cancel(job.labels):
        raise HTTPException(
            403, "you may look at this job, but not change the tasks of its DAG, so not cancel it"
        )
    service.ops.cancel_job(job.job_id)
    return {"id": job.job_id, "state": service.ops.job(job.job_id).job.state}


def _search(service: Service, request: SearchJobsRequest, version: str) -> SearchJobsResponse:
    asked = (service.conn_id, request.model_dump_json(), version)
    return ANSWERS.get(asked, lambda: service.ops.search_jobs(request))


def _rows(found: SearchJobsResponse, service: Service, rights: Rights, now: datetime) -> list[dict[str, Any]]:
    # The service was asked for these only; should it ever answer with others, they stay unseen.
    jobs = [job for job in found.jobs if rights.may_read(job.labels)]
    with airflow_database() as session:
        origins = find_origins(jobs, rights, session)
    return [
        job_view(
            job,
            now,
            service.prices,
            origin=origins.get(job.job_id),
            may_cancel=rights.may_cancel(job.labels),
        )
        for job in jobs
    ]
