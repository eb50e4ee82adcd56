"""From an Airflow connection to a client of Airflow's own REST API."""

from __future__ import annotations

from container_training.hooks.closing import ClosingHook
from container_training.hooks.service_address import endpoint_of
from container_training.work.orphans.airflow_api import AirflowApiClient


class AirflowApiHook(ClosingHook):
    """
    Reads what Airflow's REST API shows.

    A task is told of its own run only; who looks after the jobs of all runs, only the API tells.

    :param airflow_conn_id: connection with host, port and schema of the API server, and either a login and
        its password, or a bearer token as the password alone. The right to read DAGs and task instances is
        enough.
    """

    conn_name_attr = "airflow_conn_id"
    default_conn_name = "airflow_api_default"

    def __init__(self, airflow_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.airflow_conn_id = airflow_conn_id

    def get_conn(self) -> AirflowApiClient:
        """Return a new client; the caller closes it."""
        connection = self.get_connection(self.airflow_conn_id)
        password = connection.password or ""
        if connection.login:
            return AirflowApiClient(endpoint_of(connection), username=connection.login, password=password)
        return AirflowApiClient(endpoint_of(connection), token=password)
