"""The one place that decides, by a connection's type, which API it leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from container_training.hooks.importing import importing
from container_training.hooks.service_address import InvalidConnection, endpoint_of, service_address
from container_training.work.job_pages import Dashboard, JobPages, JobPlace
from training_api.clients.backend import AsyncTrainingBackend, TrainingBackend

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from container_training.work.preflight.report import PreflightRow
    from training_api.clients.fleet import OpsClient
    from training_api.clients.iam import IamPoliciesClient
    from training_api.clients.watching import Watch
    from training_api.job.job_spec import JobSpec

TRAINING_CONN_TYPE = "container_training"
VERTEX_CONN_TYPE = "vertex_training"


class BackendAddress(Protocol):
    """
    What a connection says of a service, whichever API it speaks.

    Waits of one service and project find each other by it: equal addresses are one service.
    """

    @property
    def endpoint(self) -> str:
        """URL of the service."""

    @property
    def project(self) -> str:
        """Project of the jobs."""

    @property
    def min_poll_seconds(self) -> float:
        """Shortest pause between two looks at the waiting jobs."""

    def pages(self, job: JobPlace, dashboard: Dashboard) -> JobPages:
        """Return where people find a job. :param dashboard: of this connection."""

    def cancel_command(self, job: JobPlace) -> str:
        """Return the command by which people cancel a job."""

    def connect(self) -> TrainingBackend:
        """Return a new client for threads; the caller closes it."""

    def connect_async(self) -> AsyncTrainingBackend:
        """Return a new client for asyncio; the caller closes it."""

    def foresee(
        self, spec: JobSpec, options: Mapping[str, Any], policies: IamPoliciesClient | None
    ) -> list[PreflightRow]:
        """
        Return what a preflight finds of all that a job needs beside the service.

        It starts nothing. What cannot be read is a row that says so. A service whose own rules say
        everything has no rows.

        :param spec: the whole job, as ``check_job`` returns it for the same ``options``.
        :param policies: asked who may pull the images; ``None``: that is not checked.
        """

    def connect_ops(self) -> OpsClient:
        """
        Return a new client for those who watch the service; the caller closes it.

        :raises InvalidConnection: the service is not this project's own.
        """

    def connect_watch(self, timeout_seconds: float) -> Watch:
        """Return new clients for the dashboard; the caller closes them."""


def _vertex_service(connection: Connection) -> BackendAddress:
    # Imported here: DAG files and most Airflows need nothing of it.
    with importing():
        from container_training.hooks.vertex_address import vertex_service

    return vertex_service(connection)


def _training_policies(connection: Connection) -> str:
    return endpoint_of(connection) if connection.host else ""


def _vertex_policies(connection: Connection) -> str:
    with importing():
        from container_training.hooks.vertex_address import vertex_policies_endpoint

    return vertex_policies_endpoint(connection)


class _Reader(NamedTuple):
    """How a connection of one type is read."""

    address: Callable[[Connection], BackendAddress]
    #: The connection need not have a project.
    policies: Callable[[Connection], str]


_READERS: Mapping[str, _Reader] = {
    TRAINING_CONN_TYPE: _Reader(service_address, _training_policies),
    VERTEX_CONN_TYPE: _Reader(_vertex_service, _vertex_policies),
}

CONN_TYPES = tuple(_READERS)


def is_of_backend(connection: Connection) -> bool:
    """Whether a connection is of a type that leads to a backend; one without a type is not."""
    return connection.conn_type in _READERS


def _reader(connection: Connection) -> _Reader | None:
    # A connection of an environment variable may come without a type; it has always been this one.
    return _READERS.get(connection.conn_type or TRAINING_CONN_TYPE)


def policies_endpoint(connection: Connection) -> str:
    """Return the URL of the service's APIs of policies; empty: they are Google's."""
    reader = _reader(connection) or _READERS[TRAINING_CONN_TYPE]
    return reader.policies(connection)


def backend_address(connection: Connection) -> BackendAddress:
    """
    Return the service that ``connection`` leads to.

    :raises InvalidConnection: it is of another type, or lacks a field.
    """
    reader = _reader(connection)
    if reader is None:
        meaning = f"it must be one of {', '.join(_READERS)}, got {connection.conn_type!r}"
        raise InvalidConnection(connection.conn_id, "usable type", meaning)
    return reader.address(connection)
