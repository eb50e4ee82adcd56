"""The connection type ``container_training``: from a connection to a client of the API."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tenacity import RetryCallState

from container_training.hooks.closing import ClosingHook
from container_training.hooks.metrics import count_retry
from container_training.work.job_buckets import JobBuckets
from container_training.work.template_values import is_unset
from training_api.clients.fleet import OpsClient
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.clients.patience import patiently
from training_api.clients.training import AsyncTrainingClient, TrainingClient, job_log_filter
from training_api.cloud_logging import SERVICE_TASK_NAME, LogEntry
from training_api.dialects.ml_v1.cost import PriceList, parse_prices
from training_api.dialects.ml_v1.resources import GetConfigResponse, Job, ListJobsResponse
from training_api.errors import InvalidArgument, JobNotFound, TrainingError

if TYPE_CHECKING:
    from airflow.sdk import Connection


_P = ParamSpec("_P")
_T = TypeVar("_T")
#: How long a hook asks a service that does not answer; after that, Airflow's retries take over.
DEFAULT_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """
    What a connection says of the service.

    Waits of one service and project find each other by it.

    :param token: bearer token; empty: none.
    :param min_poll_seconds: shortest pause between two looks at the waiting jobs.
    """

    endpoint: str
    project: str
    token: str = field(default="", repr=False)
    network: Network = DEFAULT_NETWORK
    min_poll_seconds: float = 0.0

    @property
    def headers(self) -> Mapping[str, str]:
        """What goes along with each request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def connect(self) -> AsyncTrainingClient:
        """Return a new client for asyncio; the caller closes it."""
        return AsyncTrainingClient(self.endpoint, self.project, headers=self.headers, network=self.network)


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
        ``client_certificate``, ``client_key`` and ``proxy`` say how it is reached.
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
    def client(self) -> TrainingClient:
        """The client for threads; made on first use."""
        return TrainingClient(*self._address, **self._way)

    @cached_property
    def ops(self) -> OpsClient:
        """The client for those who watch the service; made on first use."""
        return OpsClient(*self._address, **self._way)

    @property
    def _way(self) -> dict[str, Any]:
        return {"headers": bearer_headers(self._connection), "network": network_of(self._connection)}

    @cached_property
    def _address(self) -> tuple[str, str]:
        return _address(self._connection)

    @cached_property
    def _connection(self) -> Connection:
        return self.get_connection(self.training_conn_id)

    def get_conn(self) -> TrainingClient:
        """Return the client for threads, the same one each time."""
        return self.client

    async def get_async_conn(self) -> AsyncTrainingClient:
        """Return a new client for asyncio; the caller closes it."""
        return service_address(await self.aget_connection(self.training_conn_id)).connect()

    async def aget_service(self) -> tuple[ServiceAddress, PriceList]:
        """
        Return the service's address, and the prices of the connection.

        :raises InvalidPrice: they cannot be read.
        """
        connection = await self.aget_connection(self.training_conn_id)
        return service_address(connection), _prices(connection)

    @property
    def prices(self) -> PriceList:
        """Prices of the connection. :raises InvalidPrice: they cannot be read."""
        return _prices(self._connection)

    @property
    def endpoint(self) -> str:
        """URL of the service."""
        return self._address[0]

    @property
    def job_bucket(self) -> str | None:
        """The ``gs://`` folder for jobs that name none (extra ``job_bucket``); ``None`` without one."""
        return self._connection.extra_dejson.get("job_bucket") or None

    @property
    def job_buckets(self) -> JobBuckets:
        """The buckets that are read and written for the connection's jobs."""
        return JobBuckets.of(self.training_conn_id, self.project, self._connection.extra_dejson)

    @property
    def project(self) -> str:
        """Project under which jobs are submitted."""
        return self._address[1]

    def test_connection(self) -> tuple[bool, str]:
        """Ask the service for the project's configuration; for the UI's Test button."""
        try:
            with self:
                agent = self.client.get_config().service_account  # a person waits for this: one question
        except TrainingError as error:
            return False, str(error)
        return True, f"the service answers; jobs of {self.project!r} run as {agent}"

    def submit_job(self, job: Job) -> Job:
        """Submit ``job`` and return its record. :raises JobConflict: the job id is taken."""
        return self.client.create_job(job)

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

    def get_config(self) -> GetConfigResponse:
        """Return the project's service agent."""
        return self._ask(self.client.get_config)

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


def endpoint_of(connection: Connection) -> str:
    """
    Return the training service's URL, ``http://host:port``.

    :raises InvalidConnection: the host is missing.
    """
    host = connection.host
    if not host:
        raise InvalidConnection(connection.conn_id, "host", "the host of the training service")
    scheme = connection.schema or "http"
    endpoint = host if "://" in host else f"{scheme}://{host}"
    return f"{endpoint}:{connection.port}" if connection.port else endpoint


def bearer_headers(connection: Connection) -> dict[str, str]:
    """Return the header with the connection's password as token; none without a password."""
    return {"Authorization": f"Bearer {connection.password}"} if connection.password else {}


def _address(connection: Connection) -> tuple[str, str]:
    """
    Return endpoint and project of ``connection``.

    :raises InvalidConnection: host or project is missing.
    """
    endpoint = endpoint_of(connection)
    project = connection.extra_dejson.get("project")
    if not project:
        raise InvalidConnection(
            connection.conn_id, "extra.project", "the project id, under which jobs are submitted"
        )
    return endpoint, str(project)


def service_address(connection: Connection) -> ServiceAddress:
    """
    Return what ``connection`` says of the service.

    :raises InvalidConnection: a field is missing, or not a number.
    """
    endpoint, project = _address(connection)
    value = connection.extra_dejson.get("min_poll_seconds") or 0
    try:
        min_poll_seconds = float(value)
    except (TypeError, ValueError):
        min_poll_seconds = math.nan
    if not (math.isfinite(min_poll_seconds) and min_poll_seconds >= 0):
        meaning = f"it must be a number of seconds >= 0, got {value!r}"
        raise InvalidConnection(connection.conn_id, "usable extra.min_poll_seconds", meaning)
    return ServiceAddress(
        endpoint=endpoint,
        project=project,
        token=connection.password or "",
        network=network_of(connection),
        min_poll_seconds=min_poll_seconds,
    )


def network_of(connection: Connection) -> Network:
    """
    Return the way to what ``connection`` names.

    :raises InvalidConnection: a file cannot be read, or the proxy is no URL.
    """
    extra = connection.extra_dejson
    verify = extra.get("verify", True)
    if isinstance(verify, str):
        verify = {"": True, "true": True, "false": False}.get(verify.lower(), verify)
    certificate, key = extra.get("client_certificate") or "", extra.get("client_key") or ""
    for name, value in (("verify", verify), ("client_certificate", certificate), ("client_key", key)):
        if value and not isinstance(value, bool) and not (isinstance(value, str) and Path(value).exists()):
            meaning = f"it must be the path of a file on this machine, got {value!r}"
            raise InvalidConnection(connection.conn_id, f"usable extra.{name}", meaning)
    proxy = extra.get("proxy") or ""
    if proxy and not (isinstance(proxy, str) and "://" in proxy):
        # It may have a password, which no message shows.
        raise InvalidConnection(
            connection.conn_id, "usable extra.proxy", "it must be a URL like http://HOST:PORT"
        )
    return Network(
        verify=verify, certificate=(certificate, key or certificate) if certificate else None, proxy=proxy
    )


def _prices(connection: Connection) -> PriceList:
    extra = connection.extra_dejson
    source = f"extra.prices of connection {connection.conn_id!r}"
    return parse_prices(extra.get("prices"), source, extra.get("currency"))


class InvalidConnection(TrainingError):
    """The Airflow connection lacks a field that this project needs."""

    def __init__(self, conn_id: str, field: str, meaning: str) -> None:
        super().__init__(
            f"connection {conn_id!r} has no {field}: {meaning}; edit it under Admin > Connections, or where it is kept"
        )
