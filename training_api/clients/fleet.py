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
from training_api.dialects.ml_v1.job_rows import SearchJobsResponse
from training_api.fleet.history import FleetHistory, FleetHistoryRequest
from training_api.fleet.wire import (
    CurvesResponse,
    FleetResponse,
    SearchJobsRequest,
    TimelineResponse,
    UsageResponse,
    VersionResponse,
)
from training_api.wire import WireModel

_M = TypeVar("_M", bound=WireModel)


class OpsClient(ServiceConnection):
    """Client of ``/ops/v1``."""

    def search_jobs(self, request: SearchJobsRequest) -> SearchJobsResponse:
        """Return one page of jobs with totals. :raises ServiceError: the filter cannot be read."""
        return self._ask(SearchJobsResponse, "POST", "/jobs:search", request.to_wire())

    def timeline(self, job_id: str) -> TimelineResponse:
        """Return what took the job's time. :raises JobNotFound: there is none."""
        return self._ask(TimelineResponse, "GET", f"/jobs/{quote(job_id, safe='')}/timeline")

    def usage(self, job_id: str) -> UsageResponse:
        """Return what the job's replicas used. :raises JobNotFound: there is none."""
        return self._ask(UsageResponse, "GET", f"/jobs/{quote(job_id, safe='')}/usage")

    def curves(self, job_id: str) -> CurvesResponse:
        """Return what the job and its trials reported. :raises JobNotFound: there is none."""
        return self._ask(CurvesResponse, "GET", f"/jobs/{quote(job_id, safe='')}/curves")

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
        base = f"{self._endpoint}/ops/v1/projects/{quote(self._project, safe='')}"
        request = httpx.Request(method, base + path, json=body, headers=self._headers)
        return read_model(model, self._send(request))
