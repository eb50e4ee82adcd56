"""From a connection to Airflow's own REST API: its address, and with what one logs in."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from container_training.hooks.airflow_api import AirflowApiHook
from container_training.hooks.service_address import InvalidConnection
from container_training.work.orphans.airflow_api import AirflowApiClient


def connect(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> AirflowApiClient:
    connection = {"conn_type": "http", "host": "airflow.test", "port": 8080} | changes
    monkeypatch.setenv("AIRFLOW_CONN_AIRFLOW_API_DEFAULT", json.dumps(connection))
    return AirflowApiHook().get_conn()


def requests_of(client: AirflowApiClient) -> list[httpx.Request]:
    """Have ``client`` list the tasks of an empty Airflow, and return what it sent."""
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "jwt"})
        return httpx.Response(200, json={"task_instances": [], "next_cursor": None})

    client._http._transport = httpx.MockTransport(answer)
    with client:
        assert client.live_tasks() == []
    return sent


def test_a_login_is_exchanged_for_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    login, listing = requests_of(connect(monkeypatch, login="finder", password="secret"))

    assert str(login.url) == "http://airflow.test:8080/auth/token"
    assert json.loads(login.content) == {"username": "finder", "password": "secret"}
    assert listing.headers["Authorization"] == "Bearer jwt"


def test_a_password_alone_is_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    (listing,) = requests_of(connect(monkeypatch, password="token", schema="https", port=None))

    assert listing.headers["Authorization"] == "Bearer token"
    assert str(listing.url).startswith("https://airflow.test/api/v2/")


def test_a_connection_without_a_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConnection, match="host"):
        connect(monkeypatch, host="")
