"""What an Airflow connection says of a training service: where it is, and how it is reached."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from container_training.hooks.importing import importing
from container_training.work.job_pages import (
    Dashboard,
    JobPages,
    JobPlace,
    training_cancel_command,
    training_pages,
)
from training_api.clients.network import DEFAULT_NETWORK, Network
from training_api.errors import TrainingError

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from container_training.work.preflight.report import PreflightRow
    from training_api.clients.fleet import OpsClient
    from training_api.clients.iam import IamPoliciesClient
    from training_api.clients.training import AsyncTrainingClient, TrainingClient
    from training_api.clients.watching import Watch
    from training_api.dialects.ml_v1.cost import PriceList
    from training_api.job.job_spec import JobSpec


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

    def pages(self, job: JobPlace, dashboard: Dashboard) -> JobPages:
        """Return where people find a job."""
        return training_pages(self.endpoint, self.project, job, dashboard)

    def cancel_command(self, job: JobPlace) -> str:
        """Return the command by which people cancel a job."""
        return training_cancel_command(self.project, job)

    def connect(self) -> TrainingClient:
        """Return a new client for threads; the caller closes it."""
        # Imported here, as below: a DAG file needs no client.
        with importing():
            from training_api.clients.training import TrainingClient

        return TrainingClient(self.endpoint, self.project, headers=self.headers, network=self.network)

    def connect_async(self) -> AsyncTrainingClient:
        """Return a new client for asyncio; the caller closes it."""
        with importing():
            from training_api.clients.training import AsyncTrainingClient

        return AsyncTrainingClient(self.endpoint, self.project, headers=self.headers, network=self.network)

    def foresee(
        self,
        spec: JobSpec,
        options: Mapping[str, Any],
        policies: IamPoliciesClient | None,
    ) -> list[PreflightRow]:
        """Return nothing: the service's own rules say what it needs."""
        return []

    def connect_ops(self) -> OpsClient:
        """Return a new client for those who watch the service; the caller closes it."""
        with importing():
            from training_api.clients.fleet import OpsClient

        return OpsClient(self.endpoint, self.project, headers=self.headers, network=self.network)

    def connect_watch(self, timeout_seconds: float) -> Watch:
        """Return new clients for the dashboard; the caller closes them."""
        with importing():
            from training_api.clients.fleet import OpsClient
            from training_api.clients.training import TrainingClient
            from training_api.clients.watching import Watch

        options: Any = {
            "headers": self.headers,
            "network": self.network,
            "timeout_seconds": timeout_seconds,
        }
        return Watch(
            jobs=OpsClient(self.endpoint, self.project, **options),
            logs=TrainingClient(self.endpoint, self.project, **options),
        )


def endpoint_of(connection: Connection, default_scheme: str = "http") -> str:
    """
    Return the URL of the service, ``http://host:port``, without a ``/`` at its end.

    :raises InvalidConnection: the host is missing, or no part of a URL.
    """
    host = connection.host
    if not host:
        raise InvalidConnection(connection.conn_id, "host", "the host of the training service")
    try:
        url = httpx.URL(host if "://" in host else f"{connection.schema or default_scheme}://{host}")
        return str(url.copy_with(port=connection.port) if connection.port else url).rstrip("/")
    except (httpx.InvalidURL, ValueError):
        meaning = f"it must be a host name or a URL like http://HOST, got {host!r}"
        raise InvalidConnection(connection.conn_id, "usable host", meaning) from None


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
    return ServiceAddress(
        endpoint=endpoint,
        project=project,
        token=connection.password or "",
        network=network_of(connection),
        min_poll_seconds=seconds_of(connection, "min_poll_seconds"),
    )


def seconds_of(connection: Connection, name: str, default: float = 0.0) -> float:
    """
    Return the extra ``name``, a number of seconds.

    :raises InvalidConnection: it is none, or negative.
    """
    value = connection.extra_dejson.get(name)
    try:
        seconds = default if value in (None, "") else float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        meaning = f"it must be a number of seconds >= 0, got {value!r}"
        raise InvalidConnection(connection.conn_id, f"usable extra.{name}", meaning)
    return seconds


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


def prices_of(connection: Connection) -> PriceList:
    """Return the prices of a connection. :raises InvalidPrice: they cannot be read."""
    with importing():
        from training_api.dialects.ml_v1.cost import parse_prices
    extra = connection.extra_dejson
    source = f"extra.prices of connection {connection.conn_id!r}"
    return parse_prices(extra.get("prices"), source, extra.get("currency"))


class InvalidConnection(TrainingError):
    """The Airflow connection lacks a field that this project needs."""

    def __init__(self, conn_id: str, field: str, meaning: str) -> None:
        super().__init__(
            f"connection {conn_id!r} has no {field}: {meaning}; edit it under Admin > Connections, or where it is kept"
        )
