"""The connection type ``vertex_training``: from a connection to a client of Vertex AI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from container_training.hooks.google_token import GoogleToken, words
from container_training.hooks.service_address import (
    InvalidConnection,
    endpoint_of,
    network_of,
    seconds_of,
)
from container_training.hooks.storage import object_store_endpoint
from container_training.work.job_pages import (
    Dashboard,
    JobPages,
    JobPlace,
    vertex_cancel_command,
    vertex_pages,
)
from container_training.work.submission.default_region import DEFAULT_REGION
from training_api.clients.fleet import OpsClient
from training_api.clients.iam import IamEndpoints, IamPoliciesClient
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.clients.vertex.client import DEFAULT_LIST_LAG_SECONDS, AsyncVertexClient, VertexClient
from training_api.clients.vertex.project_facts import ProjectFacts
from training_api.clients.watching import Watch
from training_api.vertex_jobs.address import VertexAddress, origin
from training_api.vertex_jobs.options import VertexOptions

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from container_training.work.preflight.report import PreflightRow
    from training_api.job.job_spec import JobSpec

#: Vertex AI answers 600 requests a minute and region at most (quota "resource management requests") by
#: default [unverified]; a list every 5 s leaves room for people.
DEFAULT_MIN_POLL_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexService:
    """
    What a connection says of Vertex AI.

    Waits of one project find each other by it.

    :param token: bearer token of a service of one's own; empty: the credentials of ``gcp_conn_id``.
    :param gcp_conn_id: connection of type ``google_cloud_platform`` with the credentials.
    :param impersonation_chain: service accounts to act as, the last one at the end.
    :param quota_project: project that the calls are counted for; empty: that of the credentials.
    :param dashboard_conn_id: connection by which the dashboard shows the jobs; empty: this one. Of a service
        of one's own another API tells more.
    :param registry: of a service of one's own, where it is not on loopback.
    """

    address: VertexAddress
    gcp_conn_id: str
    token: str = field(default="", repr=False)
    impersonation_chain: tuple[str, ...] = ()
    quota_project: str = ""
    network: Network = DEFAULT_NETWORK
    min_poll_seconds: float = DEFAULT_MIN_POLL_SECONDS
    list_lag_seconds: float = DEFAULT_LIST_LAG_SECONDS
    dashboard_conn_id: str = ""
    registry: str = ""

    @property
    def project(self) -> str:
        """Project of the jobs."""
        return self.address.project

    @property
    def endpoint(self) -> str:
        """URL of the service in the region where new jobs are made."""
        return self.address.of_region(self.address.regions[0])

    def pages(self, job: JobPlace, dashboard: Dashboard) -> JobPages:
        """Return where people find a job."""
        conn_id = quote(self.dashboard_conn_id, safe="")
        return vertex_pages(self.address, job, replace(dashboard, conn_id=conn_id) if conn_id else dashboard)

    def cancel_command(self, job: JobPlace) -> str:
        """Return the command by which people cancel a job."""
        return vertex_cancel_command(self.address, job)

    def connect(self) -> VertexClient:
        """Return a new client for threads; the caller closes it."""
        return VertexClient(self.address, **self._way)

    def connect_async(self) -> AsyncVertexClient:
        """Return a new client for asyncio; the caller closes it."""
        return AsyncVertexClient(self.address, **self._way)

    def foresee(
        self, spec: JobSpec, options: Mapping[str, Any], policies: IamPoliciesClient | None
    ) -> list[PreflightRow]:
        """Return what a preflight finds of images, the bucket, machines and quotas."""
        # Imported here: only a preflight needs it.
        from container_training.work.preflight.foresight import Surroundings, foresight_rows

        given = VertexOptions.of(options)
        with self.connect() as client, self._buckets() as buckets, self._facts() as facts:
            around = Surroundings(
                backend=client,
                policies=policies,
                buckets=buckets,
                facts=facts,
                region=(given.regions or self.address.regions)[0],
                strategy=given.strategy,
                registry=self.registry,
            )
            return foresight_rows(spec, around)

    def _facts(self) -> ProjectFacts:
        headers, auth = self._credentials
        return ProjectFacts(self.address, auth=auth, headers=headers, network=self.network)

    def _buckets(self) -> IamPoliciesClient:
        """Return a client of Cloud Storage, where a token of a service of one's own must not go."""
        endpoints = IamEndpoints()
        endpoints = replace(endpoints, storage=object_store_endpoint() or endpoints.storage)
        return IamPoliciesClient(endpoints, auth=self._google_token, network=self.network)

    def connect_ops(self) -> OpsClient:
        """Raise: Vertex AI has no such API. :raises InvalidConnection: always."""
        raise InvalidConnection(
            f"of project {self.project}", "operations API", "only this project's own service has one"
        )

    def connect_watch(self, timeout_seconds: float) -> Watch:
        """Return new clients for the dashboard; the caller closes them."""
        # Imported here: tasks and triggers watch nothing.
        from training_api.clients.vertex.watch import VertexWatch

        client = VertexClient(self.address, timeout_seconds=timeout_seconds, **self._way)
        watch = VertexWatch(client, self.min_poll_seconds)
        return Watch(jobs=watch, logs=client, log_seconds=self.min_poll_seconds)

    @property
    def _google_token(self) -> GoogleToken:
        return GoogleToken(self.gcp_conn_id, self.impersonation_chain)

    @property
    def _credentials(self) -> tuple[dict[str, str], GoogleToken | None]:
        """What goes along with requests to the service: headers, and what adds a token."""
        headers = {"X-Goog-User-Project": self.quota_project} if self.quota_project else {}
        if self.token:
            return {**headers, "Authorization": f"Bearer {self.token}"}, None
        return headers, self._google_token

    @property
    def _way(self) -> dict[str, Any]:
        headers, auth = self._credentials
        return {
            "auth": auth,
            "headers": headers,
            "network": self.network,
            "list_lag_seconds": self.list_lag_seconds,
        }


def vertex_service(connection: Connection) -> VertexService:
    """
    Return what ``connection`` says of Vertex AI.

    :raises InvalidConnection: a field is missing, or cannot be used.
    """
    extra = connection.extra_dejson
    project = extra.get("project")
    if not project:
        raise InvalidConnection(
            connection.conn_id, "extra.project", "the project id, under which jobs are submitted"
        )
    regions = words(extra.get("regions")) or words(extra.get("region")) or (DEFAULT_REGION,)
    return VertexService(
        address=VertexAddress(
            project=str(project),
            regions=regions,
            endpoint=_endpoint(connection),
            logging_endpoint=str(extra.get("logging_endpoint") or ""),
            resource_manager_endpoint=str(extra.get("resource_manager_endpoint") or ""),
            project_number=str(extra.get("project_number") or ""),
        ),
        token=connection.password or "",
        gcp_conn_id=str(extra.get("gcp_conn_id") or "google_cloud_default"),
        impersonation_chain=words(extra.get("impersonation_chain")),
        quota_project=str(extra.get("quota_project") or ""),
        network=network_of(connection),
        min_poll_seconds=seconds_of(connection, "min_poll_seconds", DEFAULT_MIN_POLL_SECONDS),
        list_lag_seconds=seconds_of(connection, "list_lag_seconds", DEFAULT_LIST_LAG_SECONDS),
        dashboard_conn_id=str(extra.get("dashboard_conn_id") or ""),
        registry=str(extra.get("registry") or ""),
    )


def vertex_policies_endpoint(connection: Connection) -> str:
    """Return the URL beside which a service of one's own has its policies; empty: it is Google."""
    endpoint = _endpoint(connection)
    return origin(endpoint) if endpoint else ""


def _endpoint(connection: Connection) -> str:
    """Return the URL of a host that serves all regions; empty: there is none, so it is Google."""
    return endpoint_of(connection, "https") if connection.host else ""
