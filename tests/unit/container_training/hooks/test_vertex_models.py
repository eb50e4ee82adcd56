"""Vertex AI's Model Registry: one upload of an id, and its errors in the project's words."""

from __future__ import annotations

import builtins
import json
from concurrent.futures import TimeoutError as OperationTimeout
from typing import Any

import pytest
from google.api_core.exceptions import (
    DeadlineExceeded,
    FailedPrecondition,
    PermissionDenied,
    ResourceExhausted,
    ServiceUnavailable,
)
from google.auth.exceptions import RefreshError

from container_training.hooks.closing import NoSuchConnection
from container_training.hooks.vertex_models import VertexModelsHook
from tests.support.fakes.vertex_models import FakeVertexModels
from training_api.errors import AccessDenied, InvalidArgument, RegistryMirrorFailed
from training_api.retrying import is_worth_a_retry

NAME = "projects/p-1/locations/europe-west4/models/version-1"
MODEL = {"display_name": "digits"}


@pytest.fixture
def vertex(monkeypatch: pytest.MonkeyPatch) -> FakeVertexModels:
    fake = FakeVertexModels()
    monkeypatch.setattr(VertexModelsHook, "provider", fake)
    return fake


@pytest.fixture
def hook(vertex: FakeVertexModels) -> VertexModelsHook:
    return VertexModelsHook(region="europe-west4")


def test_a_model_is_uploaded_once(hook: VertexModelsHook, vertex: FakeVertexModels) -> None:
    assert [hook.upload("version-1", MODEL) for _ in range(2)] == [f"{NAME}@1"] * 2

    parent = NAME.partition("/models")[0]
    assert vertex.uploads == [{"parent": parent, "model_id": "version-1", "model": MODEL}]
    assert vertex.region == "europe-west4"


def test_the_project_of_the_task_wins_over_the_connections(vertex: FakeVertexModels) -> None:
    VertexModelsHook(project_id="p-2").upload("version-1", MODEL)

    assert list(vertex.models) == ["projects/p-2/locations/us-central1/models/version-1"]


def test_without_a_project_both_ways_out_are_named(hook: VertexModelsHook, vertex: FakeVertexModels) -> None:
    vertex.project_id = ""

    with pytest.raises(
        InvalidArgument, match=r"^vertex_project_id must be given, or be in connection 'google"
    ):
        hook.upload("version-1", MODEL)


def test_an_upload_that_another_try_has_begun_is_waited_for_by_a_retry(
    hook: VertexModelsHook, vertex: FakeVertexModels
) -> None:
    vertex.is_pending = True
    vertex.models[NAME] = MODEL

    with pytest.raises(RegistryMirrorFailed, match=r"its id is taken: .* a retry finds it") as caught:
        hook.upload("version-1", MODEL)
    vertex.is_pending = False

    assert is_worth_a_retry(caught.value)
    assert (hook.upload("version-1", MODEL), vertex.uploads) == (f"{NAME}@1", [])


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (PermissionDenied("no"), AccessDenied, "was refused: no; the account needs aiplatform.models.upload"),
        (FailedPrecondition("no image"), InvalidArgument, "was refused: no image; correct vertex_model"),
        (
            ValueError("Unknown field for Model: x"),
            InvalidArgument,
            "in snake_case: Unknown field for Model: x",
        ),
        (ServiceUnavailable("down"), RegistryMirrorFailed, "did not finish: 503 down; retry"),
        (DeadlineExceeded("late"), RegistryMirrorFailed, "did not finish"),
        (ResourceExhausted("quota"), RegistryMirrorFailed, "did not finish"),
        (RefreshError("no token"), RegistryMirrorFailed, "no token"),  # type: ignore[no-untyped-call]
        (OperationTimeout("1800 seconds"), RegistryMirrorFailed, "1800 seconds"),
    ],
)
def test_an_error_of_vertex_ai_says_whose_it_is(
    hook: VertexModelsHook,
    vertex: FakeVertexModels,
    error: Exception,
    expected: type[Exception],
    message: str,
) -> None:
    vertex.refusal = error

    with pytest.raises(expected, match=message):
        hook.upload("version-1", MODEL)


@pytest.fixture
def without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter in which Google's library of Vertex AI is not installed."""
    true_import = builtins.__import__

    def refuse(name: str, *arguments: Any) -> Any:
        if "vertex_ai" in name:
            raise ModuleNotFoundError("No module named 'google.cloud.aiplatform_v1'")
        return true_import(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.mark.usefixtures("without_the_library")
def test_a_missing_library_is_named_with_the_way_out() -> None:
    with pytest.raises(
        InvalidArgument,
        match=r"No module named 'google\.cloud.*; install google-cloud-aiplatform .* or leave",
    ):
        VertexModelsHook().upload("version-1", MODEL)


@pytest.mark.usefixtures("airflow_db")
def test_a_connection_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoSuchConnection, match="'absent'"):
        VertexModelsHook("absent").upload("version-1", MODEL)
    monkeypatch.setenv(
        "AIRFLOW_CONN_HERE", json.dumps({"conn_type": "google_cloud_platform", "extra": {"project": "p-9"}})
    )
    from airflow.providers.google.cloud.hooks.vertex_ai.model_service import ModelServiceHook

    assert isinstance(VertexModelsHook("here").get_conn(), ModelServiceHook)
