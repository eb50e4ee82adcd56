"""
The app as Airflow mounts it, without a login.

tests/e2e has what logged-in users see.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from container_training.dashboard.app import make_app
from container_training.dashboard.routes.pages import theme_script


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


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.html")), ids=lambda page: page.stem)
def test_pages_have_no_script_or_style_of_their_own(page: Path) -> None:
    text = page.read_text("utf-8")

    assert not re.search(r"<script(?![^>]*\bsrc=)", text.replace("<script>$theme</script>", ""))
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)


def test_no_file_of_ours_names_another_host() -> None:
    ours = {name: text for name, text in assets.assets().items() if not name.startswith("vendor/")}

    for name, text in ours.items():
        found = set(re.findall(r"https?://[^\s\"'`]+", text.decode()))
        assert found <= {"http://www.w3.org/2000/svg"}, name


def test_every_module_that_is_imported_is_served() -> None:
    served = assets.assets()

    for name, text in served.items():
        if name.endswith(".js") and not name.startswith("vendor/"):
            for other in re.findall(r"(?:from|import\()\s*[\"']\./([^\"']+)", text.decode()):
                assert other in served, f"{name} imports {other}"


def test_every_problem_has_a_status_and_advice() -> None:
    for kind, status, advice in _ADVICE:
        assert 400 <= status < 600, kind
        assert advice.endswith(".")
    from training_api.errors import Throttled

    status, problem = problem_of(Throttled("too often", code=429, status="RESOURCE_EXHAUSTED"))
    assert status == 503
    assert problem["message"] == "too often"


def test_no_request_keeps_a_connection_of_airflows_database() -> None:
    """
    See ``database.py``.

    With FastAPI's own dependency, fifty pages at once make Airflow's API server hang.
    """
    kept = {"_get_session", "_get_async_session"}

    def calls(dependant: Dependant) -> set[str]:
        own = {getattr(dependant.call, "__name__", "")}
        return own.union(*(calls(each) for each in dependant.dependencies))

    for route in make_app().routes:
        assert isinstance(route, APIRoute)
        assert not calls(route.dependant) & kept, route.path
