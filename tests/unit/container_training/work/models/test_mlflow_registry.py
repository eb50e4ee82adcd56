"""MLflow's registry, which follows the pointer: its requests, and what becomes of refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from container_training.work.models.champion import Reading, promoted
from container_training.work.models.mlflow_registry import VERSION_TAG, MlflowRegistry
from tests.support.bed.model_versions import make_author, make_version
from training_api.errors import RegistryMirrorFailed


class FakeMlflow:
    """
    One registered model of an MLflow server, as its REST API shows it.

    A test may have it refuse.
    """

    def __init__(self) -> None:
        self.versions: dict[str, list[dict[str, str]]] = {}
        self.alias: str | None = None
        self.is_registered = False
        self.refusal: httpx.Response | Exception | None = None
        self.calls: list[str] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/2.0/mlflow/")
        self.calls.append(f"{request.method} {path}")
        if isinstance(self.refusal, Exception):
            raise self.refusal
        if self.refusal is not None:
            return self.refusal
        body: dict[str, Any] = json.loads(request.content) if request.content else dict(request.url.params)
        return self._answer(self.calls[-1], body)

    def _answer(self, call: str, body: dict[str, Any]) -> httpx.Response:
        match call:
            case "GET model-versions/search":
                found = re.search(r"= '([^']*)'$", body["filter"])
                assert found
                numbers = [number for number, tags in self.versions.items() if _tag(tags) == found[1]]
                return httpx.Response(200, json={"model_versions": [{"version": each} for each in numbers]})
            case "POST registered-models/create":
                if self.is_registered:
                    return _error("RESOURCE_ALREADY_EXISTS")
                self.is_registered = True
            case "POST model-versions/create":
                self.versions[str(len(self.versions) + 1)] = body["tags"]
            case "POST registered-models/alias":
                self.alias = body["version"]
            case "GET registered-models/alias":
                if self.alias is None:
                    return _error("INVALID_PARAMETER_VALUE")
                return httpx.Response(200, json={"model_version": {"tags": self.versions[self.alias]}})
            case "DELETE model-versions/delete":
                del self.versions[body["version"]]
        return httpx.Response(200, json={})


def _tag(tags: list[dict[str, str]]) -> str:
    return next(tag["value"] for tag in tags if tag["key"] == VERSION_TAG)


def _error(code: str, status: int = 400) -> httpx.Response:
    return httpx.Response(status, json={"error_code": code, "message": "no"})


@pytest.fixture
def mlflow() -> FakeMlflow:
    return FakeMlflow()


@pytest.fixture
def registry(mlflow: FakeMlflow) -> Iterator[MlflowRegistry]:
    with MlflowRegistry(
        "http://mlflow.test/", "digits", transport=httpx.MockTransport(mlflow.handle)
    ) as registry:
        yield registry


def reading(version_id: str, generation: int = 1) -> Reading:
    """Return a pointer that names a version."""
    pointer = promoted(None, make_version(version_id), make_author(version_id))
    return Reading(pointer=pointer, generation=generation)


def test_a_version_is_shown_once_with_where_it_comes_from(
    mlflow: FakeMlflow, registry: MlflowRegistry
) -> None:
    version = make_version("v1", snapshot_uri=None)

    registry.show_version(version)
    registry.show_version(version)

    (tags,) = mlflow.versions.values()
    told = {tag["key"]: tag["value"] for tag in tags}
    assert told[VERSION_TAG] == "v1"
    assert told["image"] == version.image
    assert told["metric.accuracy"] == "0.9"
    assert "snapshot" not in told


def test_a_second_version_of_a_model_that_is_there_is_no_error(
    mlflow: FakeMlflow, registry: MlflowRegistry
) -> None:
    registry.show_version(make_version("v1"))
    registry.show_version(make_version("v2"))

    assert len(mlflow.versions) == 2


def test_the_alias_follows_the_pointer(mlflow: FakeMlflow, registry: MlflowRegistry) -> None:
    assert registry.champion() is None

    registry.show_champion(lambda: reading("v1"))

    assert registry.champion() == "v1"


def test_without_a_champion_there_is_nothing_to_show(mlflow: FakeMlflow, registry: MlflowRegistry) -> None:
    registry.show_champion(Reading)

    assert mlflow.calls == []


def test_a_champion_that_changes_meanwhile_is_shown_in_the_end(
    mlflow: FakeMlflow, registry: MlflowRegistry
) -> None:
    readings = [reading("v1", 1), reading("v2", 2)]

    registry.show_champion(lambda: readings.pop(0) if len(readings) > 1 else readings[0])

    assert registry.champion() == "v2"


def test_a_champion_that_changes_without_end_is_given_up(registry: MlflowRegistry) -> None:
    generations = iter(range(10**6))

    with pytest.raises(RegistryMirrorFailed, match="after 20 tries"):
        registry.show_champion(lambda: reading("v1", next(generations)))


def test_a_version_is_forgotten_under_all_of_its_numbers(
    mlflow: FakeMlflow, registry: MlflowRegistry
) -> None:
    registry.show_version(make_version("v1"))
    registry.show_version(make_version("v2"))
    mlflow.versions["9"] = mlflow.versions["1"]

    registry.forget_version("v1")
    registry.forget_version("v1")

    assert [_tag(tags) for tags in mlflow.versions.values()] == ["v2"]


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (httpx.ConnectError("refused"), "MLflow does not answer at http://mlflow.test"),
        (
            _error("PERMISSION_DENIED", 403),
            "refused GET model-versions/search of model 'digits' with status 403",
        ),
        (httpx.Response(502, text="<html>Bad Gateway"), "with status 502: <html>Bad Gateway"),
        (httpx.Response(500, json=["no object"]), "with status 500"),
    ],
)
def test_a_server_that_does_not_answer_or_refuses_is_named(
    mlflow: FakeMlflow, registry: MlflowRegistry, refusal: httpx.Response | Exception, words: str
) -> None:
    mlflow.refusal = refusal

    with pytest.raises(RegistryMirrorFailed, match=words):
        registry.show_version(make_version())


@pytest.mark.parametrize(
    ("options", "scheme"), [({"login": ("ann", "secret")}, "Basic"), ({"token": "t"}, "Bearer t"), ({}, "")]
)
def test_the_login_or_the_token_goes_along(options: dict[str, Any], scheme: str) -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return _error("RESOURCE_DOES_NOT_EXIST", 404)

    with MlflowRegistry(
        "http://mlflow.test", "m", transport=httpx.MockTransport(answer), **options
    ) as registry:
        assert registry.champion() is None

    assert seen[0].headers.get("Authorization", "").startswith(scheme)
