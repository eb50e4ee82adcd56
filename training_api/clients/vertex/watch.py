"""Jobs of Vertex AI as the dashboard asks for them. For threads."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from training_api.clients.shared_answers import Answers
from training_api.clients.vertex.client import VertexClient
from training_api.dialects.ml_v1.job_rows import JobDetail, JobRow, SearchJobsResponse
from training_api.errors import InvalidArgument, JobNotFound, NotTold, ServiceError
from training_api.filtering import parse_filter
from training_api.fleet.history import FleetHistory, FleetHistoryRequest
from training_api.fleet.wire import (
    DEFAULT_SEARCH_PAGE,
    CurvesResponse,
    FleetResponse,
    SearchJobsRequest,
    TimelineResponse,
    UsageResponse,
)
from training_api.job.labels import DAG_LABEL
from training_api.vertex_jobs.row_filter import matches
from training_api.vertex_jobs.watched import detail_of, row_of

_log = logging.getLogger(__name__)
#: What is listed of each region and kind of job: enough for a page, and two or three requests.
NEWEST = 200
#: What a resource name ends with: ``locations/L/customJobs/ID``.
_NAME_PARTS = 4
_NO_FLEET = (
    "Vertex AI tells neither capacity nor use, so its jobs have no fleet page; choose the connection of a "
    "service of your own, or look at Google's console"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """
    The newest jobs.

    :param rows: newest first; seconds of RUNNING are those of the moment of the list.
    :param version: a digest of what they are and when they changed.
    """

    rows: Sequence[JobRow]
    version: str


class VertexWatch:
    """
    The newest jobs of a project: a ``JobWatch``.

    All methods that are about many jobs share one list, which is at most ``keep_seconds`` old. Vertex AI has
    no totals and no text search, so these are of the list.

    :param client: closed with this.
    :param keep_seconds: shortest pause between two lists.
    :param clock: seconds; for tests.
    """

    has_series = False

    def __init__(
        self, client: VertexClient, keep_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._answers = Answers(keep_seconds, clock)
        #: A list from before the last cancel does not serve.
        self._cancels = 0

    def search_jobs(self, request: SearchJobsRequest) -> SearchJobsResponse:
        """
        Return one page of the newest jobs, and totals of them.

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidArgument: the page token is none that this has given.
        """
        tree = parse_filter(request.filter)
        found = [row for row in self._listed().rows if _is_meant(row, request) and matches(tree, row)]
        begin = _offset(request.page_token)
        end = begin + (request.page_size or DEFAULT_SEARCH_PAGE)
        return SearchJobsResponse(
            jobs=found[begin:end],
            next_page_token=str(end) if end < len(found) else "",
            total=len(found),
            states=dict(Counter(row.state for row in found)),
        )

    def job(self, name: str) -> JobDetail:
        """
        Return one job, by its number, its create's id, or its resource name.

        :raises JobNotFound: there is none.
        :raises ServiceError: it cannot be read.
        """
        found = self._client.resource(name.rpartition("/")[2])
        if "/" in name and _within(name) != _within(str(found.get("name", ""))):
            raise JobNotFound(f"there is no job {name!r:.200}")
        try:
            return detail_of(found, datetime.now(UTC))
        except ValidationError as error:
            raise ServiceError(f"job {name!r:.200} cannot be read: {error}") from error

    def cancel_job(self, job_id: str) -> None:
        """Ask a job to end; one that has ended is left as it is. :raises JobNotFound: there is none."""
        self._client.cancel_job(job_id)
        self._cancels += 1

    def timeline(self, job_id: str) -> TimelineResponse:
        """Return nothing: Vertex AI tells a job's own times only."""
        return TimelineResponse()

    def usage(self, job_id: str) -> UsageResponse:
        """Return nothing: Cloud Monitoring has it."""
        return UsageResponse()

    def curves(self, job_id: str) -> CurvesResponse:
        """Return nothing: Vertex AI keeps the final measurement of each trial."""
        return CurvesResponse()

    def fleet(self) -> FleetResponse:
        """Raise: Vertex AI does not tell. :raises NotTold: always."""
        raise NotTold(_NO_FLEET)

    def history(self, request: FleetHistoryRequest) -> FleetHistory:
        """Raise: Vertex AI does not tell. :raises NotTold: always."""
        raise NotTold(_NO_FLEET)

    def version(self) -> str:
        """Return a digest of the newest jobs: what they are and when they changed."""
        return self._listed().version

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._client.close()

    def _listed(self) -> _Listed:
        return self._answers.get(self._cancels, self._list)

    def _list(self) -> _Listed:
        resources = self._client.newest(NEWEST)
        seen = [(each.get("name"), each.get("state"), each.get("updateTime")) for each in resources]
        return _Listed(
            rows=sorted(_rows(resources), key=lambda row: row.create_time, reverse=True),
            version=hashlib.sha256(repr(seen).encode()).hexdigest()[:16],
        )


def _rows(resources: Sequence[Mapping[str, Any]]) -> Iterator[JobRow]:
    """Yield the jobs; those that cannot be read are left out."""
    now = datetime.now(UTC)
    for resource in resources:
        try:
            yield row_of(resource, now)
        except ValidationError as error:
            _log.warning("%s cannot be read; it is left out: %s", resource.get("name"), error)


def _is_meant(row: JobRow, request: SearchJobsRequest) -> bool:
    if request.dags is not None and row.labels.get(DAG_LABEL) not in request.dags:
        return False
    after = request.changed_after
    return after is None or row.end_time is None or row.end_time > after


def _offset(page_token: str) -> int:
    if page_token and not (page_token.isascii() and page_token.isdecimal() and len(page_token) < 10):
        raise InvalidArgument(
            f"page_token must be one that was given, got {page_token!r:.200}; begin without one"
        )
    return int(page_token or 0)


def _within(name: str) -> list[str]:
    """Return what follows the project, which is named by its id or its number."""
    return name.split("/")[-_NAME_PARTS:]
