"""What the dashboard asks about jobs, whichever API has them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from training_api.clients.backend import TrainingBackend
from training_api.dialects.ml_v1.job_rows import JobDetail, SearchJobsResponse
from training_api.fleet.history import FleetHistory, FleetHistoryRequest
from training_api.fleet.wire import (
    CurvesResponse,
    FleetResponse,
    SearchJobsRequest,
    TimelineResponse,
    UsageResponse,
)


class JobWatch(Protocol):
    """
    The jobs of one project, for those who watch them. For threads.

    A method asks once and never retries. It raises ``TransportError`` when nobody answers, and a
    ``ServiceError`` of the fitting kind when the service answers with an error. What an API does not tell of
    a job is an empty answer.
    """

    @property
    def has_series(self) -> bool:
        """Whether this API tells what jobs report and use over time."""

    def search_jobs(self, request: SearchJobsRequest) -> SearchJobsResponse:
        """Return one page of jobs with totals. :raises InvalidFilter: the filter cannot be read."""

    def job(self, name: str) -> JobDetail:
        """Return one job, by its id or its resource name. :raises JobNotFound: there is none."""

    def cancel_job(self, job_id: str) -> None:
        """Ask a job to end; one that has ended is left as it is. :raises JobNotFound: there is none."""

    def timeline(self, job_id: str) -> TimelineResponse:
        """Return what took the job's time."""

    def usage(self, job_id: str) -> UsageResponse:
        """Return what the job's replicas used."""

    def curves(self, job_id: str) -> CurvesResponse:
        """Return what the job and its trials reported."""

    def fleet(self) -> FleetResponse:
        """Return capacity, use and queue. :raises NotTold: this API does not."""

    def history(self, request: FleetHistoryRequest) -> FleetHistory:
        """Return the fleet's past. :raises NotTold: this API does not."""

    def version(self) -> str:
        """Return a text that is another one after every change of a job's state."""

    def close(self) -> None:
        """Close the connections; may be called twice."""


class Watch(NamedTuple):
    """
    Clients for those who watch jobs: of what they are, and of their logs.

    :param log_seconds: shortest pause between two looks at the same log.
    """

    jobs: JobWatch
    logs: TrainingBackend
    log_seconds: float = 0.0
