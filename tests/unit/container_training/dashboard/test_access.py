"""Who asks: Airflow's own auth manager decides, and another site's page is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import HTTPException, Request
from fastapi.testclient import TestClient

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from container_training.dashboard.airflow_side.rights import Rights


@pytest.fixture
def rights_of(session: Session, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Rights]:
    """Return the rights of somebody with a role of the simple auth manager."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from container_training.airflow_internals import login
    from container_training.dashboard import access

    monkeypatch.setattr(login, "get_auth_manager", SimpleAuthManager)
    return lambda role: access.rights_of(SimpleAuthManagerUser(username="x", role=role))


@pytest.mark.parametrize(
    ("role", "reads", "cancels"),
    [
        ("viewer", True, False),
        ("user", True, True),
        ("op", True, True),
        ("admin", True, True),
        (None, False, False),
    ],
)
def test_role_decides_what_is_seen_and_what_may_be_cancelled(
    rights_of: Callable[[Any], Rights],
    add_run: Callable[..., None],
    role: str | None,
    *,
    reads: bool,
    cancels: bool,
) -> None:
    add_run("mine", "r", "submit")

    rights = rights_of(role)

    # Other tests of the same process may have left DAGs of theirs.
    assert "mine" in rights.known
    for labels in ({"airflow-dag": "mine"}, {}):
        assert rights.may_read(labels) is reads
        assert rights.may_cancel(labels) is cancels


@pytest.mark.parametrize(
    ("role", "sees"), [("viewer", False), ("user", False), ("op", True), ("admin", True)]
)
def test_the_names_of_connections_are_for_those_whom_airflow_shows_them(
    session: Session, monkeypatch: pytest.MonkeyPatch, role: str, *, sees: bool
) -> None:
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.core_api.security import get_user

    from container_training.airflow_internals import login
    from container_training.dashboard.app import make_app

    monkeypatch.setattr(login, "get_auth_manager", SimpleAuthManager)
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_OF_ACME", '{"conn_type": "container_training", "host": "a"}')
    app = make_app()
    app.dependency_overrides = {get_user: lambda: SimpleAuthManagerUser(username="x", role=role)}
    with TestClient(app) as client:
        answer = client.get("/api/connections").json()

    assert answer["default"] == "training_default"
    assert ("training_of_acme" in answer["connections"]) is sees
    assert sees or answer["connections"] == []


def request_with(**headers: str) -> Request:
    named = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": named})


OURS = {"X_Training_Action": "1", "Host": "airflow.example:8080"}


@pytest.mark.parametrize(
    "headers",
    [
        OURS,
        OURS | {"Sec_Fetch_Site": "same-origin"},
        OURS | {"Sec_Fetch_Site": "same-origin", "Origin": "https://behind.a.proxy"},
        OURS | {"Origin": "http://airflow.example:8080"},
    ],
)
def test_our_own_page_may_ask(headers: dict[str, str]) -> None:
    from container_training.dashboard.access import requires_own_page

    requires_own_page(request_with(**headers))


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "airflow.example:8080"},
        OURS | {"Sec_Fetch_Site": "cross-site"},
        OURS | {"Sec_Fetch_Site": "same-site"},
        OURS | {"Origin": "https://evil.example"},
        OURS | {"Origin": "null"},
    ],
)
def test_another_sites_page_is_refused(headers: dict[str, str]) -> None:
    from container_training.dashboard.access import requires_own_page

    with pytest.raises(HTTPException) as refused:
        requires_own_page(request_with(**headers))

    assert refused.value.status_code == 403
