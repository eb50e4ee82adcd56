"""From Airflow connections to a client of IAM policies."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import httpx

from container_training.hooks.backends import policies_endpoint
from container_training.hooks.closing import ClosingHook
from container_training.hooks.google_token import GoogleToken, words
from container_training.hooks.importing import importing
from container_training.hooks.service_address import bearer_headers, network_of
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook
from training_api.cached import cached_property

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from training_api.clients.iam import IamEndpoints, IamPoliciesClient
    from training_api.clients.repositories import RepositoriesClient

_GOOGLE = ".googleapis.com"


class RegistryIamHook(ClosingHook):
    """
    Policies of the registries' resources, at a connection's endpoints; close after use.

    Google's own APIs are asked with the credentials of the Google connection; every other endpoint, the local
    service above all, with the training connection's password as bearer token, if it has one.

    :param training_conn_id: its extras ``resource_manager_endpoint``, ``artifact_registry_endpoint`` and
        ``storage_endpoint`` are base URLs; default: the training service itself, and Google's if that is
        Google's.
    :param gcp_conn_id: connection of type ``google_cloud_platform``; used for Google's own endpoints only.
        The extras ``gcp_conn_id``, unless another one is given here, and ``impersonation_chain`` of the
        training connection count here, too.
    """

    conn_name_attr = "training_conn_id"
    default_conn_name = TrainingHook.default_conn_name
    kept = ("client",)

    def __init__(
        self,
        training_conn_id: str = default_conn_name,
        gcp_conn_id: str = StorageHook.default_conn_name,
    ) -> None:
        super().__init__()
        self.training_conn_id = training_conn_id
        self.gcp_conn_id = gcp_conn_id

    @cached_property
    def client(self) -> IamPoliciesClient:
        """The client; made on first use."""
        # Imported here, as below: a DAG file needs no client.
        with importing():
            from training_api.clients.iam import IamPoliciesClient

        connection = self.get_connection(self.training_conn_id)
        return IamPoliciesClient(
            iam_endpoints(connection), auth=self._auth(connection), network=network_of(connection)
        )

    def repositories(self) -> RepositoriesClient:
        """Return a new client of Artifact Registry's repositories; the caller closes it."""
        with importing():
            from training_api.clients.repositories import RepositoriesClient

        connection = self.get_connection(self.training_conn_id)
        endpoint = iam_endpoints(connection).artifact_registry
        return RepositoriesClient(endpoint, auth=self._auth(connection), network=network_of(connection))

    def _auth(self, connection: Connection) -> _ByEndpoint:
        extra, conn_id = connection.extra_dejson, self.gcp_conn_id
        if conn_id == StorageHook.default_conn_name:
            conn_id = extra.get("gcp_conn_id") or conn_id
        google = GoogleToken(conn_id, words(extra.get("impersonation_chain")))
        return _ByEndpoint(google, bearer_headers(connection))

    def get_conn(self) -> IamPoliciesClient:
        """Return the client, the same one each time."""
        return self.client


def iam_endpoints(connection: Connection) -> IamEndpoints:
    """Return the endpoints that ``connection`` names; one without a host leads to Google."""
    with importing():
        from training_api.clients.iam import IamEndpoints

    training = policies_endpoint(connection)
    extra = connection.extra_dejson
    default = IamEndpoints()
    if training and not _is_google(httpx.URL(training)):
        default = IamEndpoints(resource_manager=training, artifact_registry=training, storage=training)
    return IamEndpoints(
        resource_manager=extra.get("resource_manager_endpoint") or default.resource_manager,
        artifact_registry=extra.get("artifact_registry_endpoint") or default.artifact_registry,
        storage=extra.get("storage_endpoint") or default.storage,
    )


class _ByEndpoint(httpx.Auth):
    """
    Authenticates requests: to Google over TLS with Google's credentials, else the token.

    The token is the training service's.
    """

    def __init__(self, google: GoogleToken, headers: dict[str, str]) -> None:
        self._google = google
        self._headers = headers

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        if _is_google(request.url):
            yield from self._google.sync_auth_flow(request)
        else:
            request.headers.update(self._headers)
            yield request


def _is_google(url: httpx.URL) -> bool:
    return url.scheme == "https" and url.host.endswith(_GOOGLE)
