"""From a connection to a client of the training service that it leads to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import quote

from tenacity import RetryCallState

from container_training.hooks.backends import BackendAddress, backend_address
from container_training.hooks.closing import ClosingHook
from container_training.hooks.metrics import count_retry
from container_training.hooks.service_address import prices_of
from container_training.work.job_buckets import JobBuckets
from container_training.work.job_pages import Dashboard, JobPages, JobPlace
from container_training.work.template_values import is_unset
from training_api.cached import cached_property
from training_api.clients.backend import NO_OPTIONS, AsyncTrainingBackend, TrainingBackend
from training_api.clients.log_cursor import job_log_filter
from training_api.clients.patience import patiently
from training_api.cloud_logging import SERVICE_TASK_NAME, LogEntry
from training_api.dialects.ml_v1.cost import PriceList
from training_api.dialects.ml_v1.resources import Job, ListJobsResponse
from training_api.errors import InvalidArgument, JobNotFound, TrainingError

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from container_training.work.preflight.report import PreflightRow
    from training_api.clients.fleet import OpsClient
    from training_api.clients.iam import IamPoliciesClient
    from training_api.job.job_spec import JobSpec


_P = ParamSpec("_P")
_T = TypeVar("_T")
#: How long a hook asks a service that does not answer; after that, Airflow's retries take over.
DEFAULT_PATIENCE_SECONDS = 60.0


class TrainingHook(ClosingHook):
    """
    Talks to the training service of one connection; close it after use.

    :param training_conn_id: connection with host, port, schema (``http`` unless given), the extra
        ``project``, and as its password a bearer token, if the service wants one. The extras ``prices``, an
        object of machine types or accelerators and their prices per second, and ``currency`` say what jobs
        cost; ``retraining_max_age_days``, an object of models and days, when the dashboard calls a model
        overdue; ``buckets`` which buckets beside the project's own are read for its jobs. The extra
        ``min_poll_seconds`` is the shortest pause between two looks at jobs that are
        waited for in the triggerer, for a service that is not one's own. The extras ``verify``,
        ``client_certificate``, ``client_key`` and ``proxy`` say how it is reached. A connection of the type
        ``vertex_training`` leads to Vertex AI (``vertex_address.py``).
    :param patience_seconds: how long a question - not a submission - is asked again while the service does
        not answer, answers 429 or 5xx: a minute, or 0 for those who ask again by themselves.
    """

    conn_name_attr = "training_conn_id"
    default_conn_name = "training_default"
    conn_type = "container_training"
    hook_name = "Container training"
    kept = ("client", "ops")

    def __init__(
        self, training_conn_id: str = default_conn_name, *, patience_seconds: float | None = None
    ) -> None:
        super().__init__()
        self.training_conn_id = training_conn_id
        self.patience_seconds = DEFAULT_PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._sleep: Callable[[float], None] = time.sleep

    @cached_property
    def client(self) -> TrainingBackend:
        """The client for threads; made on first use."""
        return self._where.connect()

    @cached_property
    def ops(self) -> OpsClient:
        """
        The client for those who watch the service; made on first use.

        :raises InvalidConnection: the service is not this project's own.
        """
        return self._where.connect_ops()

    @property
    def min_poll_seconds(self) -> float:
        """Shortest pause between two looks of a wait at its job."""
        return self._where.min_poll_seconds

    @cached_property
    def _where(self) -> BackendAddress:
        return backend_address(self._connection)

    @cached_property
    def _connection(self) -> Connection:
        return self.get_connection(self.training_conn_id)

    def get_conn(self) -> TrainingBackend:
        """Return the client for threads, the same one each time."""
        return self.client

    async def get_async_conn(self) -> AsyncTrainingBackend:
        """Return a new client for asyncio; the caller closes it."""
        return backend_address(await self.aget_connection(self.training_conn_id)).connect_async()

    async def aget_service(self) -> tuple[BackendAddress, PriceList]:
        """
        Return the service's address, and the prices of the connection.

        :raises InvalidPrice: they cannot be read.
        """
        connection = await self.aget_connection(self.training_conn_id)
        return backend_address(connection), prices_of(connection)

    @property
    def prices(self) -> PriceList:
        """Prices of the connection. :raises InvalidPrice: they cannot be read."""
        return prices_of(self._connection)

    @property
    def endpoint(self) -> str:
        """URL of the service."""
        return self._where.endpoint

    @property
    def job_bucket(self) -> str | None:
        """The ``gs://`` folder for jobs that name none (extra ``job_bucket``); ``None`` without one."""
        return self._connection.extra_dejson.get("job_bucket") or None

    @property
    def registry(self) -> str:
        """``HOST:PORT`` of the service's registry, where it is not on loopback (extra ``registry``)."""
        return str(self._connection.extra_dejson.get("registry") or "")

    @property
    def job_buckets(self) -> JobBuckets:
        """The buckets that are read and written for the connection's jobs."""
        return JobBuckets.of(self.training_conn_id, self.project, self._connection.extra_dejson)

    @property
    def project(self) -> str:
        """Project under which jobs are submitted."""
        return self._where.project

    def pages(self, job: JobPlace, airflow_url: str) -> JobPages:
        """
        Return where people find a job.

        :param airflow_url: where they reach Airflow; empty: not known.
        """
        conn_id = quote(self.training_conn_id, safe="")
        return self._where.pages(job, Dashboard(airflow_url=airflow_url, conn_id=conn_id))

    def foresee(
        self, spec: JobSpec, options: Mapping[str, Any], policies: IamPoliciesClient | None
    ) -> list[PreflightRow]:
        """Return what a preflight finds of all that a job needs beside the service."""
        return self._where.foresee(spec, options, policies)

    def cancel_command(self, job: JobPlace) -> str:
        """Return the command by which people cancel a job."""
        return self._where.cancel_command(job)

    def test_connection(self) -> tuple[bool, str]:
        """Ask the service for the project's configuration; for the UI's Test button."""
        try:
            with self:
                agent = self.client.service_agent()  # a person waits for this: one question
        except TrainingError as error:
            return False, str(error)
        return True, f"the service answers; jobs of {self.project!r} run as {agent}"

    def submit_job(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> Job:
        """
        Submit ``job`` and return its record.

        :param options: what only Vertex AI has.
        :raises JobConflict: the job id is taken.
        """
        return self.client.create_job(job, options)

    def get_job(self, job_id: str) -> Job:
        """
        Return the record of ``job_id``.

        :raises JobNotFound: there is none.
        :raises InvalidArgument: there is no id, as where the task that submits the job was marked as
            successful before it had.
        """
        if is_unset(job_id):
            raise InvalidArgument(
                f"job_id must be the id of a job, got {job_id!r}: the task that submits the job returned "
                "none; clear that task with what is downstream of it"
            )
        try:
            return self._ask(self.client.get_job, job_id)
        except JobNotFound as error:
            raise JobNotFound(
                f"job_id must be the id of a job of project {self.project!r}, got {job_id!r}: {error}"
            ) from error

    def list_jobs(self, filter_: str, page_size: int, page_token: str = "") -> ListJobsResponse:
        """Return a page of the jobs that fit ``filter_``, newest first; by default the first page."""
        return self._ask(self.client.list_jobs, filter_, page_size, page_token)

    def cancel_job(self, job_id: str) -> None:
        """Ask ``job_id`` to end; does nothing to a job that has ended."""
        self._ask(self.client.cancel_job, job_id)

    def read_service_log(self, job_id: str) -> Iterator[LogEntry]:
        """Yield the service's own lines about ``job_id`` (state changes, limits), oldest first."""
        filter_ = job_log_filter(job_id, task_name=SERVICE_TASK_NAME)
        token = ""
        while True:
            page = self._ask(self.client.list_log_entries, filter_, page_token=token)
            yield from page.entries or []
            token = page.next_page_token or ""
            if not token:
                return

    def _ask(self, question: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if not self.patience_seconds:
            return question(*args, **kwargs)
        retrying = patiently(self.patience_seconds, sleep=self._sleep, say=self._say_retry)
        return retrying(question, *args, **kwargs)

    def _say_retry(self, state: RetryCallState) -> None:
        if state.outcome is not None and state.next_action is not None:
            error = state.outcome.exception()
            self.log.warning("%s; asking again in %.1f s", error, state.next_action.sleep)
            count_retry(error)


class VertexTrainingHook(TrainingHook):
    """The same for Airflow's form of connections of the type ``vertex_training``."""

    conn_type = "vertex_training"
    hook_name = "Vertex AI training"
