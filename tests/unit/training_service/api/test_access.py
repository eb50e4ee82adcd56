"""Which permission each route asks for; a route that nobody has listed is closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from tests.support.fakes.world import World
from training_api.iam.wire import Binding, Policy
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.access.identity import Authenticator, IdentityTokens
from training_service.access.roles import JOB_LIST, ROLES
from training_service.access.signing_key import SigningKey
from training_service.access.tokens_file import digest_of
from training_service.api.access import (
    FOR_ADMINISTRATORS,
    NEEDS,
    OWN_CHECK,
    PUBLIC,
    CurrentCaller,
    access_check,
)
from training_service.api.errors import install_error_handlers
from training_service.api.middleware.gate import Gate
from training_service.store.policy_store import PolicyStore

ADMIN, ANN = "token-of-the-administrator", "token-of-ann-0123456789"
JOBS = "/v1/projects/{project}/jobs"


@pytest.fixture
def policies(world: World) -> PolicyStore:
    return PolicyStore(world.database)


@pytest.fixture
def http(policies: PolicyStore) -> TestClient:
    """A client of an app with three routes: listed, not listed, and for everybody."""
    callers = {
        digest_of(ADMIN): Caller(principal="user:admin@example.com", is_admin=True),
        digest_of(ANN): Caller(principal="user:ann@example.com"),
    }
    authenticator = Authenticator(callers, IdentityTokens(SigningKey.generate()))
    control = AccessControl(policies, authenticator, agents=[], is_required=True)
    app = FastAPI(dependencies=[Depends(access_check(control))])
    app.add_middleware(Gate, control=control, trusted_hosts=["testserver"])
    install_error_handlers(app)

    @app.get(JOBS)
    def jobs(project: str, caller: CurrentCaller) -> Any:
        return {"caller": caller.principal}

    @app.get("/unlisted")
    def unlisted() -> Any:
        return {}

    @app.get("/health")
    def health() -> Any:
        return {}

    return TestClient(app)


def ask(http: TestClient, path: str, token: str = "") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return http.get(path, headers=headers).status_code


def test_who_has_the_permission_on_the_resource_of_the_path_is_let_in(
    http: TestClient, policies: PolicyStore
) -> None:
    (viewer,) = [role for role in ("roles/ml.viewer",) if JOB_LIST in ROLES[role]]
    policy = Policy(bindings=[Binding(role=viewer, members=["user:ann@example.com"])])
    assert policies.replace("projects/mine", policy, seen_version=0)

    assert ask(http, "/v1/projects/mine/jobs", ANN) == 200
    assert ask(http, "/v1/projects/theirs/jobs", ANN) == 403
    assert ask(http, "/v1/projects/mine/jobs") == 401


def test_a_route_knows_who_asks(http: TestClient) -> None:
    answer = http.get("/v1/projects/mine/jobs", headers={"Authorization": f"Bearer {ADMIN}"})

    assert answer.json() == {"caller": "user:admin@example.com"}


def test_a_route_that_nobody_listed_is_for_administrators_only(http: TestClient) -> None:
    assert [ask(http, "/unlisted", token) for token in ("", ANN, ADMIN)] == [401, 403, 200]


def test_who_watches_the_service_needs_no_token(http: TestClient) -> None:
    assert ask(http, "/health") == 200


def test_every_route_of_the_service_is_listed_and_no_other(serve: Callable[..., TestClient]) -> None:
    app = serve().app
    assert isinstance(app, FastAPI)
    routes = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in route.methods
    }

    assert routes == NEEDS.keys() | OWN_CHECK | PUBLIC | FOR_ADMINISTRATORS


def test_every_permission_that_a_route_needs_is_one_that_a_role_has() -> None:
    known = {permission for role in ROLES.values() for permission in role}

    assert {needs.permission for needs in NEEDS.values()} <= known


def test_airflows_role_opens_what_its_tasks_and_its_dashboard_ask_for_and_no_more() -> None:
    allowed = {route for route, needs in NEEDS.items() if needs.permission in ROLES["roles/training.airflow"]}

    ops = "/ops/v1/projects/{project}"
    assert allowed == {
        ("GET", "/v1/projects/{project}:getConfig"),
        ("POST", JOBS),
        ("GET", JOBS),
        ("GET", f"{JOBS}/{{job_id}}"),
        ("POST", f"{JOBS}/{{job_id}}:cancel"),
        ("GET", "/logs/projects/{project}/jobs/{job_id}"),
        ("POST", f"{ops}/jobs:search"),
        ("GET", f"{ops}/jobs/{{job_id}}"),
        ("POST", f"{ops}/jobs/{{job_id}}:cancel"),
        *(
            ("GET", f"{ops}/jobs/{{job_id}}/{view}")
            for view in ("timeline", "usage", "curves", "measurements")
        ),
        ("GET", f"{ops}/fleet"),
        ("POST", f"{ops}/fleet:history"),
        ("GET", f"{ops}/version"),
    }


@pytest.mark.parametrize("route", NEEDS)
def test_a_resource_is_made_of_the_parts_of_its_path(route: tuple[str, str]) -> None:
    names = ("project", "job_id", "location", "repository", "bucket", "model_id")
    parts = {name: name.upper() for name in names}

    resource = NEEDS[route].resource.format_map(
        {name: parts[name] for name in parts if f"{{{name}}}" in route[1]}
    )

    assert "{" not in resource
