"""Airflow's login and auth manager, with a real token, asked of a real app."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from container_training.airflow_internals import login


@pytest.fixture
def user_of(airflow_db: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Return what makes a user with a role of the auth manager that Airflow has by default."""
    from airflow.api_fastapi.app import init_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    init_auth_manager()
    yield lambda role: SimpleAuthManagerUser(username="somebody", role=role)
    purge_cached_app()


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = FastAPI(dependencies=[login.REQUIRES_LOGIN])

    @app.get("/who")
    def who(user: login.UserDep) -> str:
        return str(user.get_name())

    with TestClient(app) as client:
        yield client


def test_requires_login_and_user_dep_rely_on_airflows_token(
    user_of: Callable[[str], Any], client: TestClient
) -> None:
    """``requires_authenticated``, ``GetUserDep``: a cookie or a bearer token; else 401."""
    from airflow.api_fastapi.app import get_auth_manager

    token = get_auth_manager().generate_jwt(user_of("viewer"))

    assert client.get("/who").status_code == 401
    assert client.get("/who", headers={"Cookie": "_token=forged"}).status_code in (401, 403)
    assert client.get("/who", headers={"Cookie": f"_token={token}"}).json() == "somebody"
    assert client.get("/who", headers={"Authorization": f"Bearer {token}"}).json() == "somebody"


@pytest.mark.parametrize(("role", "reads", "edits"), [("viewer", True, False), ("user", True, True)])
def test_authorized_dag_ids_and_edits_rely_on_the_auth_manager(
    user_of: Callable[[str], Any], add_run: Callable[..., None], role: str, *, reads: bool, edits: bool
) -> None:
    """``get_authorized_dag_ids``; ``is_authorized_dag`` for task instances."""
    add_run("mine", "r", "submit")
    user = user_of(role)

    assert ("mine" in login.authorized_dag_ids(user, "GET")) is reads
    assert ("mine" in login.authorized_dag_ids(user, "PUT")) is edits
    assert login.is_authorized_for_any_dag(user, "GET") is reads
    assert login.is_authorized_for_any_dag(user, "PUT") is edits
    assert login.may_edit_task_instances(user, "mine") is edits
    assert login.may_edit_task_instances(user, None) is edits


@pytest.mark.parametrize(("role", "reads"), [("viewer", False), ("op", True)])
def test_may_read_connection_relies_on_the_auth_manager(
    user_of: Callable[[str], Any], role: str, *, reads: bool
) -> None:
    """``is_authorized_connection`` with ``ConnectionDetails``, and ``Connection.get_team_name``."""
    assert login.may_read_connection(user_of(role), "training_default") is reads
