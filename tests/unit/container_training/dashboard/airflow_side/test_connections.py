"""
The training services that Airflow's connections name: found, and kept.

They are made anew when a connection changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from container_training.dashboard.airflow_side.connections import (
    Service,
    Services,
    UnknownConnection,
    training_connections,
)
from container_training.hooks.service_address import InvalidConnection
from training_api.clients.training import TrainingClient
from training_api.clients.vertex.watch import VertexWatch

Connect = Callable[..., None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Return a function that adds, or changes, a connection of the environment."""

    def connect(conn_id: str, *, extra: dict[str, Any] | None = None, **changes: Any) -> None:
        fields = {"conn_type": "container_training", "host": "service.test", "port": 8470}
        extra = {"project": "demo"} | (extra or {})
        text = json.dumps({"extra": extra} | fields | changes)
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)

    return connect


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def services(now: list[float]) -> Iterator[Services]:
    services = Services(clock=lambda: now[0])
    yield services
    services.close()


def test_a_connection_is_a_service_with_prices_and_limits(services: Services, connect: Connect) -> None:
    extra = {
        "prices": {"n1-standard-4": 0.001},
        "currency": "EUR",
        "retraining_max_age_days": {"digits": 7},
    }
    connect("training_a", extra=extra)

    service = services.get("training_a")

    assert (service.conn_id, service.project) == ("training_a", "demo")
    assert service.prices.per_second == {"n1-standard-4": 0.001}
    assert service.prices.currency == "EUR"
    assert service.retraining_limits == {"digits": timedelta(days=7)}
    assert (service.price_problem, service.limit_problem) == ("", "")


def test_the_pause_of_waits_does_not_slow_the_log_of_a_service_of_ones_own(
    services: Services, connect: Connect
) -> None:
    connect("training_a", extra={"min_poll_seconds": 30})

    assert services.get("training_a").log_seconds == 0.0


def test_prices_and_limits_that_cannot_be_read_are_a_remark_and_hide_no_jobs(
    services: Services, connect: Connect
) -> None:
    connect(
        "training_a", extra={"prices": {"n1-standard-4": -1}, "retraining_max_age_days": {"digits": "old"}}
    )

    service = services.get("training_a")

    assert service.prices.per_second == {}
    assert service.retraining_limits == {}
    assert "extra.prices of connection 'training_a'" in service.price_problem
    assert "extra.retraining_max_age_days of connection 'training_a'" in service.limit_problem


def test_an_unknown_connection_is_said_with_the_type_to_choose(services: Services) -> None:
    with pytest.raises(UnknownConnection, match=r"'absent' cannot be found.*; .* 'container_training'"):
        services.get("absent")


def test_the_password_of_another_kind_of_connection_goes_nowhere(
    services: Services, connect: Connect
) -> None:
    connect("warehouse", conn_type="postgres", password="secret")

    with pytest.raises(UnknownConnection, match="is not one to a training service") as refused:
        services.get("warehouse")
    with pytest.raises(UnknownConnection) as absent:
        services.get("absent")

    # Who may not see connections does not learn so which there are.
    assert str(refused.value).replace("warehouse", "absent") == str(absent.value)


def test_a_connection_without_a_host_is_named_as_incomplete(services: Services, connect: Connect) -> None:
    connect("training_a", host="")

    with pytest.raises(InvalidConnection):
        services.get("training_a")


def test_a_connection_is_believed_for_ten_seconds(
    services: Services, connect: Connect, now: list[float]
) -> None:
    connect("training_a")
    first = services.get("training_a")
    connect("training_a", extra={"project": "other"})

    now[0] = 9.9
    assert services.get("training_a") is first
    now[0] = 10.1
    assert services.get("training_a").project == "other"


def test_the_clients_of_a_connection_that_did_not_change_go_on(
    services: Services, connect: Connect, now: list[float]
) -> None:
    connect("training_a")
    first = services.get("training_a")

    now[0] = 60.0

    assert services.get("training_a") is first


def test_a_connection_to_vertex_ai_is_a_service(services: Services, connect: Connect) -> None:
    connect(
        "cloud", conn_type="vertex_training", host="", port=None, extra={"prices": {"n1-standard-4": 0.1}}
    )

    service = services.get("cloud")

    assert isinstance(service.ops, VertexWatch)
    assert service.training.capabilities.dialect == "vertex_v1"
    assert service.log_seconds == 5.0
    assert service.prices.per_second == {"n1-standard-4": 0.1}


def test_clients_of_a_changed_connection_are_closed_once_nobody_waits_for_them(
    services: Services, connect: Connect, now: list[float]
) -> None:
    connect("training_a")
    old = services.get("training_a")
    connect("training_a", extra={"project": "other"})
    now[0] = 20.0
    services.get("training_a")
    assert not is_closed(old)  # a log may be on its way

    now[0] = 700.0
    new = services.get("training_a")

    assert is_closed(old)
    assert not is_closed(new)
    services.close()
    assert is_closed(new)


def is_closed(service: Service) -> bool:
    assert isinstance(service.training, TrainingClient)
    return service.training._http.is_closed


def test_services_can_be_closed_twice(services: Services, connect: Connect) -> None:
    connect("training_a")
    services.get("training_a")

    services.close()
    services.close()


@pytest.mark.usefixtures("airflow_db")
def test_only_connections_to_training_services_are_listed(connect: Connect) -> None:
    connect("training_b")
    connect("training_a")
    connect("warehouse", conn_type="postgres")
    connect("training_cloud", conn_type="vertex_training")

    found = training_connections()

    assert [conn_id for conn_id in found if conn_id.startswith(("training_", "warehouse"))] == [
        "training_a",
        "training_b",
        "training_cloud",
    ]


def test_those_of_the_database_are_listed_with_those_of_the_environment(
    airflow_db: Path, connect: Connect
) -> None:
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session
    from sqlalchemy import delete

    connect("training_a")
    stored = Connection(conn_id="training_stored", conn_type="container_training", host="service.test")
    with create_session() as session:
        session.add(stored)
    try:
        assert {"training_a", "training_stored"} <= set(training_connections())
    finally:
        with create_session() as session:
            session.execute(delete(Connection).where(Connection.conn_id == "training_stored"))
