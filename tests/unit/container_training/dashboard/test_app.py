"""
The app as Airflow mounts it, without a login.

What those who are logged in see is in tests/e2e.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from container_training.dashboard.app import make_app
from container_training.dashboard.routes.pages import theme_script
from training_api.fleet.history import FleetHistoryRequest


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(make_app(), base_url="http://127.0.0.1:8080") as client:
        yield client


def requests_of_all_routes() -> list[tuple[str, str]]:
    routes = [route for route in make_app().routes if isinstance(route, APIRoute)]
    assert len(routes) == len(make_app().routes), "a mounted app or a plain route would have no login"
    return [
        (method, re.sub(r"\{[^}]*\}", "x", route.path))
        for route in routes
        for method in sorted(route.methods)
    ]


@pytest.mark.parametrize(("method", "path"), requests_of_all_routes())
def test_no_route_answers_without_a_login(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path, headers={"X-Training-Action": "1"})

    assert answer.status_code == 401
    assert answer.json() == {
        "message": "Not authenticated",
        "advice": "Log in to Airflow, then open the page again.",
    }


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/openapi.json"])
def test_pages_that_describe_the_routes_are_off(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_browser_without_a_login_is_shown_the_way_to_it(client: TestClient) -> None:
    answer = client.get("/jobs?conn_id=a%26b", headers={"Accept": "text/html"})

    assert answer.status_code == 401
    assert 'href="/auth/login?next=%2Fjobs%3Fconn_id%3Da%2526b"' in answer.text


def test_all_answers_have_the_strict_policy(client: TestClient) -> None:
    policy = client.get("/jobs").headers["Content-Security-Policy"]

    # The page's own script is let in by what it is.
    digest = b64encode(hashlib.sha256(theme_script().encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy


def test_an_error_of_the_pages_own_code_is_no_mistake_of_the_reader() -> None:
    app = make_app()

    @app.get("/broken")
    def broken() -> None:
        """Build what its own model does not take."""
        FleetHistoryRequest(window_seconds=0, step_seconds=1, cost_step_seconds=1)

    app.dependency_overrides = {get_user: lambda: None}

    with TestClient(app, raise_server_exceptions=False) as client:
        assert client.get("/broken").status_code == 500
