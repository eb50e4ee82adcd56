"""
The training API over HTTP: clients for threads and asyncio, the same requests.

A client does one request a call and never retries by itself: whoever waits knows better how long it may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from training_api.cached import cached_property
from training_api.clients.api_answers import read_answer, read_model
from training_api.clients.backend import NO_OPTIONS, Capabilities
from training_api.clients.http_session import AsyncHttpSession
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.clients.service_connection import ADVICE, DEFAULT_TIMEOUT_SECONDS, ServiceConnection
from training_api.cloud_logging import ListLogEntriesRequest, ListLogEntriesResponse
from training_api.dialects.ml_v1.reader import job_spec_from_wire
from training_api.dialects.ml_v1.resources import GetConfigResponse, Job, ListJobsResponse
from training_api.errors import InvalidArgument, ServiceError
from training_api.job.job_spec import JobSpec


class _Requests:
    """Builds requests and reads answers; shared by both clients, does no I/O."""

    def __init__(self, endpoint: str, project: str, headers: Mapping[str, str] | None = None) -> None:
        self.headers = headers
        self.endpoint = endpoint.rstrip("/")
        self.project = project

    def create(self, job: Job) -> httpx.Request:
        return self._request("POST", f"/v1/projects/{self._quoted}/jobs", body=job.to_wire())

    def get(self, job_id: str) -> httpx.Request:
        return self._request("GET", f"/v1/projects/{self._quoted}/jobs/{quote(job_id, safe='')}")

    def list(self, filter_: str, page_size: int, page_token: str) -> httpx.Request:
        params = {"pageSize": str(page_size), "filter": filter_, "pageToken": page_token}
        wanted = {name: value for name, value in params.items() if value}
        return self._request("GET", f"/v1/projects/{self._quoted}/jobs", params=wanted)

    def cancel(self, job_id: str) -> httpx.Request:
        return self._request(
            "POST", f"/v1/projects/{self._quoted}/jobs/{quote(job_id, safe='')}:cancel", body={}
        )

    def get_config(self) -> httpx.Request:
        return self._request("GET", f"/v1/projects/{self._quoted}:getConfig")

    def list_log_entries(
        self, filter_: str, page_size: int, page_token: str, *, newest_first: bool = False
    ) -> httpx.Request:
        body = ListLogEntriesRequest(
            resource_names=[f"projects/{self.project}"],
            filter=filter_,
            order_by="timestamp desc" if newest_first else "timestamp asc",
            page_size=page_size,
            page_token=page_token,
        )
        return self._request("POST", "/v2/entries:list", body=body.to_wire())

    @property
    def _quoted(self) -> str:
        return quote(self.project, safe="")

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> httpx.Request:
        return httpx.Request(method, self.endpoint + path, json=body, params=params, headers=self.headers)


#: Of AI Platform Training's API.
CAPABILITIES = Capabilities(
    dialect="ml_v1",
    has_unique_ids=True,
    lists_by_id=True,
    list_lag_seconds=0.0,
    has_options=False,
    tells_room=True,
)


class TrainingClient(ServiceConnection):
    """Client for threads: a ``TrainingBackend``."""

    capabilities = CAPABILITIES

    @cached_property
    def _requests(self) -> _Requests:
        return _Requests(self._endpoint, self._project, self._headers)

    def create_job(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> Job:
        """See ``TrainingBackend``."""
        _refuse(options)
        return read_model(Job, self._send(self._requests.create(job)))

    def check_job(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> JobSpec:
        """See ``TrainingBackend``. :raises InvalidArgument: there are ``options``."""
        _refuse(options)
        return job_spec_from_wire(self._project, job)

    def get_job(self, job_id: str) -> Job:
        """Return the record of ``job_id``. :raises JobNotFound: there is none."""
        return read_model(Job, self._send(self._requests.get(job_id)))

    def duplicates(self, job: Job) -> list[Job]:
        """Return nothing: a job's id is unique."""
        return []

    def may_pass(self, reason: str) -> bool:
        """
        Return ``False``: a failed job of this service is final.

        The service itself starts a job again after what was not the trainer's fault.
        """
        return False

    def next_region(self, options: Mapping[str, Any], ended: Job) -> str:
        """Return nothing: a job has no regions to choose from."""
        return ""

    def list_jobs(self, filter_: str = "", page_size: int = 0, page_token: str = "") -> ListJobsResponse:
        """Return one page of jobs, newest first; 0 asks for the service's default page size."""
        return read_model(ListJobsResponse, self._send(self._requests.list(filter_, page_size, page_token)))

    def cancel_job(self, job_id: str) -> None:
        """Ask ``job_id`` to end; does nothing to a job that has ended."""
        self._send(self._requests.cancel(job_id))

    def get_config(self) -> GetConfigResponse:
        """Return the project's service agent in this API, and the project's number."""
        return read_model(GetConfigResponse, self._send(self._requests.get_config()))

    def service_agent(self) -> str:
        """
        Return the address of the account that runs and pulls for the project's jobs by default.

        :raises ServiceError: the service names none.
        """
        agent = self.get_config().service_account
        if not agent:
            project = self._requests.project
            raise ServiceError(
                f"the service names no service account for project {project!r} (projects.getConfig)"
            )
        return agent

    def project_number(self) -> int:
        """Return the project's number. :raises ServiceError: the service names none."""
        number = self.get_config().service_account_project
        if not number:
            project = self._requests.project
            raise ServiceError(f"the service names no number of project {project!r} (projects.getConfig)")
        return number

    def list_log_entries(
        self, filter_: str, page_size: int = 1000, page_token: str = "", *, newest_first: bool = False
    ) -> ListLogEntriesResponse:
        """Return one page of log entries, oldest first, or newest first."""
        request = self._requests.list_log_entries(filter_, page_size, page_token, newest_first=newest_first)
        return read_model(ListLogEntriesResponse, self._send(request))


class AsyncTrainingClient(AsyncHttpSession):
    """The twin of :class:`TrainingClient` for asyncio: same methods, same errors."""

    capabilities = CAPABILITIES

    def __init__(
        self,
        endpoint: str,
        project: str,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        headers: Mapping[str, str] | None = None,
        network: Network = DEFAULT_NETWORK,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._requests = _Requests(endpoint, project, headers)
        way = transport or network.async_transport(endpoint)
        super().__init__(httpx.AsyncClient(timeout=timeout_seconds, transport=way))

    async def get_job(self, job_id: str) -> Job:
        """See :meth:`TrainingClient.get_job`."""
        return read_model(Job, await self._send(self._requests.get(job_id)))

    async def list_jobs(
        self, filter_: str = "", page_size: int = 0, page_token: str = ""
    ) -> ListJobsResponse:
        """See :meth:`TrainingClient.list_jobs`."""
        answer = await self._send(self._requests.list(filter_, page_size, page_token))
        return read_model(ListJobsResponse, answer)

    async def cancel_job(self, job_id: str) -> None:
        """See :meth:`TrainingClient.cancel_job`."""
        await self._send(self._requests.cancel(job_id))

    async def list_log_entries(
        self, filter_: str, page_size: int = 1000, page_token: str = ""
    ) -> ListLogEntriesResponse:
        """See :meth:`TrainingClient.list_log_entries`."""
        answer = await self._send(self._requests.list_log_entries(filter_, page_size, page_token))
        return read_model(ListLogEntriesResponse, answer)

    async def _send(self, request: httpx.Request) -> Any:
        return read_answer(await self._answer("the training service", request), ADVICE)


def _refuse(options: Mapping[str, Any]) -> None:
    """Refuse what only some APIs have. :raises InvalidArgument: there are ``options``."""
    if options:
        raise InvalidArgument(
            f"{', '.join(options)} must be left out: only Vertex AI has them; use a connection of type vertex_training"
        )
