"""A job's log as text, for a browser: what ``entries:list`` says, which only takes a POST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi.responses import StreamingResponse

from training_api.clients.log_cursor import log_line
from training_api.cloud_logging import LogEntry
from training_api.wire import format_timestamp
from training_service.api.paths import ProjectPath
from training_service.api.routes import Routes
from training_service.store.jobs.job_store import JobStore
from training_service.store.logs.log_store import LogStore

#: Not in the API's own paths, which it might claim.
PATH = "/logs/projects/{project}/jobs/{job_id}"
_PAGE_SIZE = 1000
_PLAIN_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}
#: A trainer may print anything; no browser may take it for a page.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}


def job_log_router(jobs: JobStore, store: LogStore) -> Routes:
    """Return the route over ``store``, for the jobs of all dialects."""
    router = Routes(tags=["logging"])

    @router.get(PATH, response_class=StreamingResponse, responses=_PLAIN_TEXT)
    def job_log(project: ProjectPath, job_id: str) -> StreamingResponse:
        """Return the lines of a job so far, oldest first: time, severity, replica and text."""
        jobs.get(project, job_id)
        lines = (_text(entry) for entry in _entries(store, project, job_id))
        return StreamingResponse(lines, media_type="text/plain; charset=utf-8", headers=_HEADERS)

    return router


def _entries(store: LogStore, project: str, job_id: str) -> Iterator[LogEntry]:
    filter_text, token, is_last = f'resource.labels.job_id="{job_id}"', "", False
    while not is_last:
        entries, token = store.list_page(
            projects=[project], filter_text=filter_text, page_size=_PAGE_SIZE, page_token=token
        )
        yield from entries
        is_last = not token


def _text(entry: LogEntry) -> str:
    # What a trainer says in several lines is indented: none of them looks like a line of another writer.
    text = "\n    ".join(log_line(entry)[1].splitlines())
    return f"{format_timestamp(entry.timestamp)} {entry.severity:8} {text}\n"
