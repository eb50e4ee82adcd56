"""
What the training service tells those who watch it, over HTTP. For threads.

Like the other clients it asks once and never retries: whoever shows a page asks again anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import httpx

from training_api.clients.api_answers import read_model
from training_api.clients.service_connection import ServiceConnection
from training_api.dialects.ml_v1.job_rows import JobDetail, SearchJobsResponse
from training_api.errors import JobNotFound
from training_api.fleet.history import FleetHistory, FleetHistoryRequest
from training_api.fleet.wire import (
    CurvesResponse,
    FleetResponse,
    SearchJobsRequest,
    TimelineResponse,
    UsageResponse,
    VersionResponse,
)
from training_api.job.project_number import project_number
from training_api.wire import WireModel

#: What is shown of a name that no job can have.
_SHOWN_CHARACTERS = 200
_M = TypeVar("_M", bound=WireModel)


class OpsClient(ServiceConnection):
    """Client of ``/ops/v1``: a ``JobWatch``."""

    has_series = True

    def search_jobs(self, request: SearchJobsRequest) -> SearchJobsResponse:
        """Return one page of jobs with totals. :raises ServiceError: the filter cannot be read."""
        return self._ask(SearchJobsResponse, "POST", "/jobs:search", request.to_wire())

    def job(self, name: str) -> JobDetail:
        """
        Return one job, in whatever dialect it was asked for.

        :param name: its id, that of its pipeline, or the resource name of either,
            ``projects/P/locations/L/customJobs/ID``, where P is the project's id or number.
        :raises JobNotFound: there is none.
        """
        found = self._ask(JobDetail, "GET", self._job_path(name.rpartition("/")[2]))
        if "/" in name and not self._is_named(found, name):
            raise JobNotFound(f"job {name[:_SHOWN_CHARACTERS]!r} not found in project {self._project!r}")
        return found

    def cancel_job(self, job_id: str) -> None:
        """Ask a job to end; one that has ended is left as it is. :raises JobNotFound: there is none."""
        path = f"{self._job_path(job_id)}:cancel"
        self._send(httpx.Request("POST", self._url(path), json={}, headers=self._headers))

    def timeline(self, job_id: str) -> TimelineResponse:
        """Return what took the job's time. :raises JobNotFound: there is none."""
        return self._ask(TimelineResponse, "GET", f"{self._job_path(job_id)}/timeline")

    def usage(self, job_id: str) -> UsageResponse:
        """Return what the job's replicas used. :raises JobNotFound: there is none."""
        return self._ask(UsageResponse, "GET", f"{self._job_path(job_id)}/usage")

    def curves(self, job_id: str) -> CurvesResponse:
        """Return what the job and its trials reported. :raises JobNotFound: there is none."""
        return self._ask(CurvesResponse, "GET", f"{self._job_path(job_id)}/curves")

    def fleet(self) -> FleetResponse:
        """Return capacity, use and queue."""
        return self._ask(FleetResponse, "GET", "/fleet")

    def history(self, request: FleetHistoryRequest) -> FleetHistory:
        """Return the fleet's past. :raises ServiceError: the request is invalid."""
        return self._ask(FleetHistory, "POST", "/fleet:history", request.to_wire())

    def version(self) -> str:
        """Return a text that is another one after every change of a job's state."""
        return self._ask(VersionResponse, "GET", "/version").version

    def _ask(self, model: type[_M], method: str, path: str, body: Mapping[str, Any] | None = None) -> _M:
        request = httpx.Request(method, self._url(path), json=body, headers=self._headers)
        return read_model(model, self._send(request))

    def _url(self, path: str) -> str:
        return f"{self._endpoint}/ops/v1/projects/{quote(self._project, safe='')}{path}"

    @staticmethod
    def _job_path(job_id: str) -> str:
        return f"/jobs/{quote(job_id, safe='')}"

    def _is_named(self, job: JobDetail, name: str) -> bool:
        """Whether the job, or its pipeline, has this name, with the project's id or its number."""
        names = {job.name, job.pipeline.name if job.pipeline else ""}
        owners = (self._project, str(project_number(self._project)))
        return any(name == f"projects/{owner}/{rest}" for owner in owners for rest in map(_within, names))


def _within(name: str) -> str:
    """Return what follows the project in a name."""
    return name.removeprefix("projects/").partition("/")[2]
