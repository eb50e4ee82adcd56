"""The whole stack, Airflow included, once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local_stack.airflow import passwords_file
from local_stack.airflow_api import AirflowApi
from local_stack.airflow_users import ADMIN
from local_stack.settings import Part
from local_stack.stack import LocalStack


@pytest.fixture(scope="session")
def airflow(stack: LocalStack) -> Iterator[AirflowApi]:
    """Airflow beside the session's stack, with all DAGs awake."""
    stack.up([Part.AIRFLOW])
    with AirflowApi(stack.settings.airflow_url, ADMIN, passwords_file(stack.settings)) as api:
        yield api
