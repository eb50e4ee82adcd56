"""Which API a connection leads to, by its type."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk import Connection

from container_training.hooks.backends import backend_address
from container_training.hooks.service_address import InvalidConnection, ServiceAddress
from container_training.hooks.vertex_address import VertexService
from tests.support.fresh_airflow import FreshAirflow
from training_api.clients.fleet import OpsClient
from training_api.clients.vertex.watch import VertexWatch


def connection(conn_type: str | None, **fields: Any) -> Connection:
    given = {"conn_type": conn_type} if conn_type is not None else {}
    return Connection(
        conn_id="training_default", host="http://h:1", extra='{"project": "p"}', **given, **fields
    )


@pytest.mark.parametrize(
    ("conn_type", "kind", "dialect"),
    [
        ("container_training", ServiceAddress, "ml_v1"),
        ("", ServiceAddress, "ml_v1"),
        (None, ServiceAddress, "ml_v1"),
        ("vertex_training", VertexService, "vertex_v1"),
    ],
)
def test_the_type_of_the_connection_decides(conn_type: str | None, kind: type, dialect: str) -> None:
    address = backend_address(connection(conn_type, password="a-token"))

    assert type(address) is kind
    assert (address.endpoint, address.project) == ("http://h:1", "p")
    with address.connect() as client:
        assert client.capabilities.dialect == dialect

    async def ask() -> str:
        async with address.connect_async() as client:
            return client.capabilities.dialect

    assert asyncio.run(ask()) == dialect


def test_another_type_is_refused_with_those_that_there_are() -> None:
    rule = "'training_default' has no usable type: it must be one of container_training, vertex_training"
    with pytest.raises(InvalidConnection, match=f"{rule}, got 'http'"):
        backend_address(connection("http"))


def test_only_this_projects_service_is_watched() -> None:
    with backend_address(connection("container_training")).connect_ops() as ops:
        assert isinstance(ops, OpsClient)
    with pytest.raises(
        InvalidConnection, match="of project p' has no operations API: only this project's own"
    ):
        backend_address(connection("vertex_training")).connect_ops()


@pytest.mark.parametrize(
    ("conn_type", "kind", "dialect"),
    [("container_training", OpsClient, "ml_v1"), ("vertex_training", VertexWatch, "vertex_v1")],
)
def test_the_dashboard_watches_jobs_of_both(conn_type: str, kind: type, dialect: str) -> None:
    jobs, logs, _ = backend_address(connection(conn_type)).connect_watch(3.0)

    assert isinstance(jobs, kind)
    assert logs.capabilities.dialect == dialect
    jobs.close()
    logs.close()


def test_a_local_service_needs_nothing_of_vertex_ai(fresh_airflow: FreshAirflow) -> None:
    code = """
import json, sys
from types import SimpleNamespace
from container_training.hooks.backends import backend_address
fields = {"conn_id": "c", "host": "h", "schema": "", "port": 1, "password": ""}
backend_address(SimpleNamespace(conn_type="container_training", extra_dejson={"project": "p"}, **fields))
print(json.dumps([name for name in sys.modules if name.startswith("training_api.clients.vertex")]))
"""

    assert fresh_airflow.run(code) == []
