"""The project's Airflow plugin; the only module that Airflow loads from this folder (see ``.airflowignore``)."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from container_training import listener


class ContainerTrainingPlugin(AirflowPlugin):
    """Registers what the project adds to Airflow's own pages."""

    name = "container_training"
    listeners = [listener]
