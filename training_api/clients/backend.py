"""What the operators ask of a training service, whichever API it speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from training_api.cloud_logging import ListLogEntriesResponse
    from training_api.dialects.ml_v1.resources import Job, ListJobsResponse
    from training_api.job.job_spec import JobSpec

NO_OPTIONS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """
    What an API can do, where the two differ.

    :param dialect: the name of the API among this project's: ``ml_v1`` or ``vertex_v1``.
    :param has_unique_ids: the client chooses a job's id, and a second job with it is refused. Otherwise a
        create whose answer was lost may have made a job that nobody knows of.
    :param lists_by_id: the filter of a list knows ``jobId``, ``startTime`` and ``endTime``.
    :param list_lag_seconds: how long a new job may be missing from lists.
    :param has_options: a job may have options beside its description; see ``VertexOptions``.
    :param tells_room: the service has the ops API, which says what room it has.
    """

    dialect: str
    has_unique_ids: bool
    lists_by_id: bool
    list_lag_seconds: float
    has_options: bool
    tells_room: bool


class TrainingBackend(Protocol):
    """
    The jobs of one project, for threads.

    A method sends a request once and never retries by itself. It raises ``TransportError`` when nobody
    answers, and a ``ServiceError`` of the fitting kind when the service answers with an error.

    Jobs are described by ``Job``, the resource of AI Platform Training, in both directions
    (docs/adr/0035-one-description-of-a-job.md).
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this API can do."""

    def create_job(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> Job:
        """
        Submit ``job`` and return its record.

        The record's id may differ from ``job``'s.

        :param options: what only some APIs have; see ``VertexOptions``.
        :raises JobConflict: the job's id is taken.
        :raises InvalidJobSpec: this API has no such job.
        """

    def check_job(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> JobSpec:
        """
        Return what a job is by this API's own rules, without a request.

        :raises InvalidJobSpec: this API has no such job; it names every rule that is broken.
        """

    def get_job(self, job_id: str) -> Job:
        """Return a job, by its record's id or its create's. :raises JobNotFound: there is none."""

    def duplicates(self, job: Job) -> list[Job]:
        """
        Return the other jobs of the task that submitted ``job``: there should be none.

        One that ended or is being cancelled is not among them.
        """

    def may_pass(self, reason: str) -> bool:
        """
        Return whether another attempt of a job that failed may end well, without a request.

        :param reason: the job's ``errorMessage``, in this API's own words.
        """

    def next_region(self, options: Mapping[str, Any], ended: Job) -> str:
        """
        Return where the attempt after ``ended`` is made, without a request.

        Empty: where the API's options name no region.

        :raises InvalidJobSpec: the options cannot be read.
        """

    def list_jobs(self, filter_: str = "", page_size: int = 0, page_token: str = "") -> ListJobsResponse:
        """Return one page of jobs; 0 asks for the service's default page size."""

    def cancel_job(self, job_id: str) -> None:
        """Ask a job to end; does nothing to a job that has ended."""

    def list_log_entries(
        self, filter_: str, page_size: int = 1000, page_token: str = "", *, newest_first: bool = False
    ) -> ListLogEntriesResponse:
        """Return one page of log entries, oldest first, or newest first."""

    def service_agent(self) -> str:
        """Return the address of the account that pulls the images of jobs."""

    def project_number(self) -> int:
        """Return the number of the project. :raises ServiceError: the service names none."""

    def close(self) -> None:
        """Close the connections; may be called twice."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""


class AsyncTrainingBackend(Protocol):
    """The same for asyncio: what a wait asks."""

    @property
    def capabilities(self) -> Capabilities:
        """See :class:`TrainingBackend`."""

    async def get_job(self, job_id: str) -> Job:
        """See :class:`TrainingBackend`."""

    async def list_jobs(
        self, filter_: str = "", page_size: int = 0, page_token: str = ""
    ) -> ListJobsResponse:
        """See :class:`TrainingBackend`."""

    async def cancel_job(self, job_id: str) -> None:
        """See :class:`TrainingBackend`."""

    async def list_log_entries(
        self, filter_: str, page_size: int = 1000, page_token: str = ""
    ) -> ListLogEntriesResponse:
        """See :class:`TrainingBackend`."""

    async def close(self) -> None:
        """See :class:`TrainingBackend`."""

    async def __aenter__(self) -> Self:
        """Return itself."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
