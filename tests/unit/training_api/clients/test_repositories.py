"""Repositories of Artifact Registry: what is asked, by the discovery document's shapes."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from training_api.clients.repositories import CleanUp, RepositoriesClient
from training_api.errors import AccessDenied, InvalidArgument, ServiceError, ServiceUnavailable

PARENT = "projects/my-project/locations/europe-west4"
NAME = f"{PARENT}/repositories/training"
OPERATION = f"{PARENT}/operations/42"
CLEAN_UP = CleanUp(keep_newest=10, delete_after=timedelta(days=30))
POLICIES = {
    "container-training-keep": {
        "id": "container-training-keep",
        "action": "KEEP",
        "mostRecentVersions": {"keepCount": 10},
    },
    "container-training-delete": {
        "id": "container-training-delete",
        "action": "DELETE",
        "condition": {"tagState": "ANY", "olderThan": "2592000s"},
    },
}


class Api:
    """Artifact Registry, as far as one repository goes."""

    def __init__(self, repository: dict[str, Any] | None = None) -> None:
        self.repository = repository
        self.polls = 2
        self.said: list[tuple[str, str, Any]] = []
        self.faults: list[httpx.Response | Exception] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        path = request.url.raw_path.decode()
        self.said.append((request.method, path, body))
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault
        if path == f"/v1/{OPERATION}":
            self.polls -= 1
            done = {"done": True, "response": self.repository} if self.polls == 0 else {}
            return httpx.Response(200, json={"name": OPERATION, **done})
        if request.method == "POST":
            if self.repository is not None:
                return refused(409, "ALREADY_EXISTS", "the repository already exists")
            self.repository = {"name": NAME, **body}
            return httpx.Response(200, json={"name": OPERATION})
        if self.repository is None:
            return refused(404, "NOT_FOUND", "Requested entity was not found.")
        if request.method == "PATCH":
            self.repository |= body
        return httpx.Response(200, json=self.repository)

    def client(self) -> RepositoriesClient:
        return RepositoriesClient(
            "https://artifactregistry.googleapis.com",
            transport=httpx.MockTransport(self.handle),
            sleep=lambda _: None,
        )

    @property
    def asked(self) -> list[str]:
        return [f"{method} {path}" for method, path, _ in self.said]


def refused(code: int, status: str, message: str) -> httpx.Response:
    return httpx.Response(code, json={"error": {"code": code, "status": status, "message": message}})


CREATE = f"POST /v1/{PARENT}/repositories?repositoryId=training"


def test_a_repository_that_is_missing_is_made_and_waited_for() -> None:
    api = Api()

    with api.client() as client:
        assert client.ensure(NAME, CLEAN_UP)

    poll = f"GET /v1/{OPERATION}"
    assert api.asked == [f"GET /v1/{NAME}", CREATE, poll, poll]
    assert api.said[1][2] == {"format": "DOCKER", "cleanupPolicies": POLICIES}


def test_a_repository_that_is_there_stays_as_it_is_with_its_clean_up() -> None:
    api = Api({"name": NAME, "format": "DOCKER", "cleanupPolicies": {"mine": {"id": "mine"}}})

    with api.client() as client:
        assert not client.ensure(NAME)

    assert api.asked == [f"GET /v1/{NAME}"]


def test_a_clean_up_that_differs_is_written_once() -> None:
    api = Api({"name": NAME, "format": "DOCKER"})

    with api.client() as client:
        assert not client.ensure(NAME, CLEAN_UP)
        assert not client.ensure(NAME, CLEAN_UP)

    assert api.asked == [
        f"GET /v1/{NAME}",
        f"PATCH /v1/{NAME}?updateMask=cleanupPolicies",
        f"GET /v1/{NAME}",
    ]
    assert api.said[1][2] == {"cleanupPolicies": POLICIES}


def test_a_create_whose_answer_was_lost_is_sent_again_and_finds_it() -> None:
    api = Api()
    api.faults = [refused(404, "NOT_FOUND", "none"), httpx.ReadTimeout("lost")]

    with api.client() as client:
        api.repository = {"name": NAME, "format": "DOCKER"}
        assert not client.ensure(NAME, CLEAN_UP)

    patch = f"PATCH /v1/{NAME}?updateMask=cleanupPolicies"
    assert api.asked == [f"GET /v1/{NAME}", CREATE, CREATE, f"GET /v1/{NAME}", patch]


def test_an_operation_whose_poll_is_not_answered_is_asked_again_and_nothing_is_made_twice() -> None:
    api = Api()
    unavailable = refused(503, "UNAVAILABLE", "try again")
    api.faults = [
        refused(404, "NOT_FOUND", "none"),
        httpx.Response(200, json={"name": OPERATION}),
        unavailable,
    ]

    with api.client() as client:
        assert client.ensure(NAME)

    assert api.asked.count(CREATE) == 1


def test_a_repository_that_others_are_making_is_waited_for() -> None:
    api = Api()
    missing = refused(404, "NOT_FOUND", "none")
    api.faults = [missing, refused(409, "ALREADY_EXISTS", "it is being made"), missing, missing]

    with api.client() as client:
        api.repository = {"name": NAME, "format": "DOCKER"}
        assert not client.ensure(NAME)


def test_a_repository_that_is_never_done_ends_with_what_is_known() -> None:
    api = Api()
    api.polls = 10**9

    with api.client() as client, pytest.raises(ServiceUnavailable, match=f"is still being made: {OPERATION}"):
        client.ensure(NAME)


def test_who_is_overtaken_does_not_take_a_repository_of_another_format() -> None:
    api = Api({"name": NAME, "format": "PYTHON"})
    api.faults = [refused(404, "NOT_FOUND", "none")]

    with api.client() as client, pytest.raises(InvalidArgument, match="its format is PYTHON"):
        client.ensure(NAME)


def test_a_repository_of_another_format_is_refused() -> None:
    api = Api({"name": NAME, "format": "PYTHON"})

    with api.client() as client, pytest.raises(InvalidArgument, match="its format is PYTHON"):
        client.ensure(NAME)


def test_what_google_refuses_is_said() -> None:
    api = Api()
    api.faults = [refused(403, "PERMISSION_DENIED", "Permission 'artifactregistry.repositories.get' denied")]
    with api.client() as client, pytest.raises(AccessDenied, match=r"repositories\.get"):
        client.ensure(NAME)

    api = Api()
    failed = {"name": OPERATION, "done": True, "error": {"code": 8, "message": "too many repositories"}}
    api.faults = [refused(404, "NOT_FOUND", "none"), httpx.Response(200, json=failed)]
    with api.client() as client, pytest.raises(ServiceError, match="too many repositories"):
        client.ensure(NAME)


@pytest.mark.parametrize(
    "values",
    [
        {"keep_newest": 0, "delete_after": timedelta(days=30)},
        {"keep_newest": 1, "delete_after": timedelta(hours=1)},
    ],
)
def test_a_clean_up_that_keeps_nothing_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="must keep at least 1 version"):
        CleanUp(**values)
