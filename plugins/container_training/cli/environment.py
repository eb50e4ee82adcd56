"""The training connection of a command: Airflow's, or else what ``make env`` sets."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, redirect_stdout
from typing import TextIO

from training_api.command_line.connection import token_of_environment
from training_api.command_line.outcome import UsageError


def apart_from_the_log() -> AbstractContextManager[TextIO]:
    """
    Keep standard output for the command's results.

    Airflow and its hooks write their log to standard output, where it would stand before the JSON.
    """
    return redirect_stdout(sys.stderr)


def ensure_connection(conn_id: str) -> None:
    """
    Make sure that there is a connection ``conn_id``.

    If Airflow has none, make it from the environment, for this process.

    :raises UsageError: there is none, and the environment does not say where the service is.
    """
    # Costs a second of imports that the other commands do not need.
    from airflow.sdk import BaseHook
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        endpoint, project = os.environ.get("TRAINING_ENDPOINT"), os.environ.get("GOOGLE_CLOUD_PROJECT")
        if not endpoint or not project:
            raise UsageError(
                f"there is no connection {conn_id!r}: set AIRFLOW_CONN_{conn_id.upper()}, or TRAINING_ENDPOINT and "
                "GOOGLE_CLOUD_PROJECT, as `make env` does"
            ) from error
        connection = {
            "conn_type": "container_training",
            "host": endpoint.rstrip("/"),
            "password": token_of_environment(),
            "extra": {
                "project": project,
                "job_bucket": os.environ.get("JOB_BUCKET", "").rstrip("/"),
                "image_prefix": os.environ.get("IMAGE_PREFIX", ""),
                "base_image": os.environ.get("BASE_IMAGE", ""),
            },
        }
        os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"] = json.dumps(connection)
