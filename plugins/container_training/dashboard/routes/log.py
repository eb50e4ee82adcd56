"""The log of one job: pages of lines, newer and older, and all of it as a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse

from container_training.dashboard.access import RightsDep
from container_training.dashboard.airflow_side.connections import DEFAULT_CONN_ID, Service
from container_training.dashboard.routes.jobs import ConnId
from container_training.dashboard.shared import ANSWERS, SERVICES, readable_job
from container_training.dashboard.views.log import (
    MAX_PAGE_LINES,
    PAGE_LINES,
    LogQuery,
    line_view,
    newest_arrival,
    plain_line,
)
from training_api.cloud_logging import ListLogEntriesResponse, Severity
from training_api.errors import TrainingError

router = APIRouter(prefix="/api/jobs/{job_id}", include_in_schema=False)
Text = Annotated[str, Query(max_length=200)]


def log_query(
    job_id: str, replica: Text = "", trial: Text = "", search: Text = "", severity: Severity | None = None
) -> LogQuery:
    """Return which lines are asked for."""
    return LogQuery(job_id=job_id, replica=replica, trial=trial, search=search, severity=severity)


LogQueryDep = Annotated[LogQuery, Depends(log_query)]


@router.get("/log")
def log(
    query: LogQueryDep,
    rights: RightsDep,
    conn_id: ConnId = DEFAULT_CONN_ID,
    after: Text = "",
    before: Text = "",
    page: str = "",
) -> dict[str, Any]:
    """
    Return lines, oldest first.

    The newest ones; those stored ``after`` a cursor; or those written up to ``before``.

    ``cursor`` is the ``after`` of the next question. ``next`` is the ``page`` for more of the same: newer
    ones with ``after``, else older ones. Pages with ``after`` are to be asked for until there is no ``next``;
    only the first one's ``cursor`` counts.
    """
    service = SERVICES.get(conn_id)
    job_id = readable_job(service, query.job_id, rights).job.job_id
    lines = replace(query, job_id=job_id, after=after, before="" if after else before)
    size = MAX_PAGE_LINES if after else PAGE_LINES
    question = (service.conn_id, lines, page)
    found = ANSWERS.get(
        question,
        lambda: _page(service, lines, size, page, newest_first=not after),
        keep_seconds=service.log_seconds,
    )
    entries = list(found.entries or [])
    if not after:
        entries.reverse()
    return {
        "lines": [line_view(entry) for entry in entries],
        "cursor": newest_arrival(entries, after),
        "next": found.next_page_token or "",
    }


@router.get("/log.txt")
def download(query: LogQueryDep, rights: RightsDep, conn_id: ConnId = DEFAULT_CONN_ID) -> StreamingResponse:
    """Return all lines as a text file, page by page, so that no log is too long."""
    service = SERVICES.get(conn_id)
    query = replace(query, job_id=readable_job(service, query.job_id, rights).job.job_id)
    first = _page(service, query, MAX_PAGE_LINES, "")  # trouble is said before the file begins
    parts = filter(None, [query.job_id, query.trial and f"trial-{query.trial}", query.replica])
    # Ids of jobs and replicas have no quotes; what a person writes into the address may.
    name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in "_".join(parts))
    headers = {"Content-Disposition": f'attachment; filename="{name}.log"', "Cache-Control": "no-store"}
    return StreamingResponse(
        _all_lines(service, query, first), media_type="text/plain; charset=utf-8", headers=headers
    )


def _all_lines(service: Service, query: LogQuery, found: ListLogEntriesResponse) -> Iterator[str]:
    while True:
        yield "".join(map(plain_line, found.entries or []))
        if not found.next_page_token:
            return
        try:
            found = _page(service, query, MAX_PAGE_LINES, found.next_page_token)
        except TrainingError as error:
            yield f"--- the file ends here, the log does not: {error}\n"
            return


def _page(
    service: Service, query: LogQuery, size: int, page: str, *, newest_first: bool = False
) -> ListLogEntriesResponse:
    return service.training.list_log_entries(query.filter(), size, page, newest_first=newest_first)
