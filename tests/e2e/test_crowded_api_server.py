"""Airflow's API server answers more requests at once than it has threads."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from local_stack.people.airflow_api import AirflowApi
from local_stack.people.airflow_users import ADMIN
from local_stack.stack import LocalStack
from tests.e2e.browsing import token_of
from tests.support import web
from tests.support.speed import scaled

pytestmark = [pytest.mark.docker, pytest.mark.e2e]

#: More than the server has threads (40, the default of anyio), and more than Airflow's 15 connections.
PEOPLE = 80
ROUNDS = 5


def test_eighty_requests_at_once_are_all_answered(airflow: AirflowApi, stack: LocalStack) -> None:
    """Else all threads wait for connections, whose owners wait for a thread."""
    url = stack.settings.airflow_url
    headers = {"Authorization": f"Bearer {token_of(ADMIN, stack.settings)}"}

    def ask(_: int) -> list[int]:
        with web.client(headers=headers, timeout=scaled(120)) as client:
            return [client.get(f"{url}/api/v2/dags").status_code for _ in range(ROUNDS)]

    with ThreadPoolExecutor(PEOPLE) as people:
        answers = Counter(status for statuses in people.map(ask, range(PEOPLE)) for status in statuses)

    assert answers == {httpx.codes.OK: PEOPLE * ROUNDS}
