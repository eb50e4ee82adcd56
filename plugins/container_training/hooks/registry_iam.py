"""From Airflow connections to a client of IAM policies."""

from __future__ import annotations

from collections.abc import Generator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import httpx

from container_training.hooks.closing import ClosingHook
from container_training.hooks.storage import StorageHook
from container_training.hooks.training import TrainingHook, bearer_headers, endpoint_of, network_of
from training_api.clients.iam import IamEndpoints, IamPoliciesClient

if TYPE_CHECKING:
    from airflow.sdk import Connection

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
        connection = self.get_connection(self.training_conn_id)
        auth = _ByEndpoint(self.gcp_conn_id, bearer_headers(connection))
        return IamPoliciesClient(iam_endpoints(connection), auth=auth, network=network_of(connection))

    def get_conn(self) -> IamPoliciesClient:
        """Return the client, the same one each time."""
        return self.client


def iam_endpoints(connection: Connection) -> IamEndpoints:
    """Return the endpoints that ``connection`` names."""
    training = endpoint_of(connection)
    extra = connection.extra_dejson
    default = IamEndpoints()
    if not _is_google(httpx.URL(training)):
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

    def __init__(self, gcp_conn_id: str, headers: dict[str, str]) -> None:
        self._gcp_conn_id = gcp_conn_id
        self._headers = headers

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        headers = self._headers
        if _is_google(request.url):
            headers = {}
            self._google.before_request(self._refresh, request.method, str(request.url), headers)
        request.headers.update(headers)
        yield request

    @cached_property
    def _google(self) -> Any:
        # Imported here: it takes about a second, which no DAG parse may cost.
        from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

        return GoogleBaseHook(gcp_conn_id=self._gcp_conn_id).get_credentials()

    @cached_property
    def _refresh(self) -> Any:
        from google.auth.transport.requests import Request

        return Request()


def _is_google(url: httpx.URL) -> bool:
    return url.scheme == "https" and url.host.endswith(_GOOGLE)
