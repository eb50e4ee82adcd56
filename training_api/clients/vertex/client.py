"""Vertex AI's API over HTTP as a backend: clients for threads and for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from training_api.clients.api_answers import read_answer
from training_api.clients.backend import NO_OPTIONS, Capabilities
from training_api.clients.http_session import AsyncHttpSession, HttpSession
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.clients.service_connection import DEFAULT_TIMEOUT_SECONDS
from training_api.clients.vertex.questions import VertexQuestions
from training_api.clients.vertex.steps import play, play_async
from training_api.cloud_logging import ListLogEntriesResponse
from training_api.dialects.ml_v1.resources import Job, ListJobsResponse
from training_api.dialects.vertex_v1.dialect import VERTEX_V1
from training_api.job.job_spec import JobSpec
from training_api.vertex_jobs.address import VertexAddress
from training_api.vertex_jobs.failures import failure_of, region_after
from training_api.vertex_jobs.options import VertexOptions

#: How long a new job may be missing from lists: nothing says how long, so a minute [unverified].
DEFAULT_LIST_LAG_SECONDS = 60.0
#: What to do about errors that asking again does not mend.
ADVICE = {
    400: "the request itself is refused: mend what the message names",
    401: "the credentials of the connection's gcp_conn_id are not accepted: check its key or its account",
    403: "have an owner of the project give this account a role, such as roles/aiplatform.user",
    404: "look at the job's number, and at the project and the regions of the connection",
}


def capabilities_of_vertex(list_lag_seconds: float) -> Capabilities:
    """Return what Vertex AI can do."""
    return Capabilities(
        dialect=VERTEX_V1.name,
        has_unique_ids=False,
        lists_by_id=False,
        list_lag_seconds=list_lag_seconds,
        has_options=True,
        tells_room=False,
    )


class VertexClient(HttpSession):
    """
    The client for threads: a ``TrainingBackend``.

    :param auth: adds a token to each request; ``None``: none is sent.
    :param list_lag_seconds: how long a new job may be missing from lists.
    :param transport: to be used instead; for tests.
    """

    def __init__(
        self,
        address: VertexAddress,
        *,
        auth: httpx.Auth | None = None,
        headers: Mapping[str, str] | None = None,
        network: Network = DEFAULT_NETWORK,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        list_lag_seconds: float = DEFAULT_LIST_LAG_SECONDS,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._questions = VertexQuestions(address, headers)
        self.capabilities = capabilities_of_vertex(list_lag_seconds)
        ways = network.ways(*address.origins, instead=transport)
        super().__init__(httpx.Client(timeout=timeout_seconds, auth=auth, **ways))

    def create_job(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> Job:
        """See ``TrainingBackend``."""
        return play(self._questions.create(job, options), self._send)

    def check_job(self, job: Job, options: Mapping[str, Any] = NO_OPTIONS) -> JobSpec:
        """See ``TrainingBackend``."""
        return self._questions.spec_of(job, options)

    def get_job(self, job_id: str) -> Job:
        """See ``TrainingBackend``."""
        return play(self._questions.get(job_id), self._send)

    def duplicates(self, job: Job) -> list[Job]:
        """See ``TrainingBackend``."""
        return play(self._questions.duplicates(job), self._send)

    def may_pass(self, reason: str) -> bool:
        """See ``TrainingBackend``."""
        return failure_of(reason).may_pass

    def next_region(self, options: Mapping[str, Any], ended: Job) -> str:
        """See ``TrainingBackend``."""
        return region_after(VertexOptions.of(options).regions, ended)

    def list_jobs(self, filter_: str = "", page_size: int = 0, page_token: str = "") -> ListJobsResponse:
        """See ``TrainingBackend``."""
        return play(self._questions.page(filter_, page_size, page_token), self._send)

    def cancel_job(self, job_id: str) -> None:
        """See ``TrainingBackend``."""
        play(self._questions.cancel(job_id), self._send)

    def list_log_entries(
        self, filter_: str, page_size: int = 1000, page_token: str = "", *, newest_first: bool = False
    ) -> ListLogEntriesResponse:
        """See ``TrainingBackend``."""
        steps = self._questions.list_log_entries(filter_, page_size, page_token, newest_first=newest_first)
        return play(steps, self._send)

    def resource(self, job_id: str) -> Mapping[str, Any]:
        """Return a job as the API has it. :raises JobNotFound: there is none."""
        return play(self._questions.resource(job_id), self._send)

    def newest(self, most: int) -> list[Mapping[str, Any]]:
        """Return the newest jobs as the API has them. :param most: of each region and kind of job."""
        return play(self._questions.newest(most), self._send)

    def service_agent(self) -> str:
        """See ``TrainingBackend``."""
        return VERTEX_V1.agent.email(str(self.project_number()))

    def project_number(self) -> int:
        """See ``TrainingBackend``."""
        return play(self._questions.project_number(), self._send)

    def _send(self, request: httpx.Request) -> Any:
        return read_answer(self._answer("Vertex AI", request), ADVICE)


class AsyncVertexClient(AsyncHttpSession):
    """The twin of :class:`VertexClient` for asyncio: what a wait asks."""

    def __init__(
        self,
        address: VertexAddress,
        *,
        auth: httpx.Auth | None = None,
        headers: Mapping[str, str] | None = None,
        network: Network = DEFAULT_NETWORK,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        list_lag_seconds: float = DEFAULT_LIST_LAG_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._questions = VertexQuestions(address, headers)
        self.capabilities = capabilities_of_vertex(list_lag_seconds)
        ways = network.async_ways(*address.origins, instead=transport)
        super().__init__(httpx.AsyncClient(timeout=timeout_seconds, auth=auth, **ways))

    async def get_job(self, job_id: str) -> Job:
        """See ``TrainingBackend``."""
        return await play_async(self._questions.get(job_id), self._send)

    async def list_jobs(
        self, filter_: str = "", page_size: int = 0, page_token: str = ""
    ) -> ListJobsResponse:
        """See ``TrainingBackend``."""
        return await play_async(self._questions.page(filter_, page_size, page_token), self._send)

    async def cancel_job(self, job_id: str) -> None:
        """See ``TrainingBackend``."""
        await play_async(self._questions.cancel(job_id), self._send)

    async def list_log_entries(
        self, filter_: str, page_size: int = 1000, page_token: str = ""
    ) -> ListLogEntriesResponse:
        """See ``TrainingBackend``."""
        steps = self._questions.list_log_entries(filter_, page_size, page_token)
        return await play_async(steps, self._send)

    async def _send(self, request: httpx.Request) -> Any:
        return read_answer(await self._answer("Vertex AI", request), ADVICE)
