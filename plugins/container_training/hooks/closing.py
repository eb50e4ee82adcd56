"""Base of hooks that keep clients. The caller that makes a hook closes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from airflow.sdk import BaseHook, conf
from airflow.sdk.exceptions import AirflowNotFoundException

from training_api.clients.closing import Closing
from training_api.errors import TrainingError

if TYPE_CHECKING:
    from airflow.sdk import Connection


class NoSuchConnection(TrainingError, AirflowNotFoundException):
    """A task names a connection that Airflow does not have."""


class ClosingHook(Closing, BaseHook):
    """
    Base of hooks that keep clients.

    :cvar kept: names of the cached properties whose values are closed.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    #: The argument of tasks that names the connection.
    conn_name_attr: ClassVar[str]

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """Return the connection. :raises NoSuchConnection: there is none."""
        try:
            return super().get_connection(conn_id)
        except AirflowNotFoundException as error:
            raise cls._missing(conn_id, error) from error

    @classmethod
    async def aget_connection(cls, conn_id: str) -> Connection:
        """Return the connection. :raises NoSuchConnection: there is none."""
        try:
            return await super().aget_connection(conn_id)
        except AirflowNotFoundException as error:
            raise cls._missing(conn_id, error) from error

    @classmethod
    def _missing(cls, conn_id: str, error: AirflowNotFoundException) -> AirflowNotFoundException:
        backends = (("secrets", "backend"), ("workers", "secrets_backend"))
        if any(conf.get(*option, fallback="") for option in backends):
            return error  # a backend that does not answer looks the same: trying again may help
        return NoSuchConnection(
            f"{cls.conn_name_attr} must be the id of a connection, got {conn_id!r}, which this Airflow does not "
            f"have; add it under Admin > Connections, or set AIRFLOW_CONN_{conn_id.upper()}"
        )

    def close(self) -> None:
        """
        Close the clients that were made; may be called twice.

        The next use makes new clients.
        """
        for name in self.kept:
            client = self.__dict__.pop(name, None)
            if client is not None:
                client.close()
