"""Making the repository that images are pushed to."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from google.oauth2.credentials import Credentials

from container_training.operators.repository import EnsureRepositoryOperator
from tests.support.docs_examples import Example, examples

CONTEXT: Any = {"ti": SimpleNamespace()}
NAME = "projects/p-1/locations/europe-west4/repositories/training"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """Return what Google is asked; the repository is there."""
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

    requests: list[httpx.Request] = []

    def handle(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"name": NAME, "format": "DOCKER"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    monkeypatch.setattr(GoogleBaseHook, "get_credentials", lambda _: Credentials(token="google-token"))
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", "google-cloud-platform://")
    extra = {
        "project": "p-1",
        "region": "europe-west4",
        "image_prefix": "europe-west4-docker.pkg.dev/p-1/training",
    }
    connection = {"conn_type": "vertex_training", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    return requests


@pytest.mark.parametrize("example", examples("operator EnsureRepositoryOperator"), ids=str)
def test_the_example_of_the_reference_asks_google_with_its_token(
    example: Example, tmp_path: Path, asked: list[httpx.Request]
) -> None:
    file = tmp_path / "example.py"
    file.write_text(example.code)
    bag = DagBag(str(file), collect_dags=False)
    bag.collect_dags(str(file))
    (dag,) = bag.dags.values()
    (task,) = dag.tasks

    assert task.execute(CONTEXT) == {"name": NAME, "created": False}
    assert [f"{each.method} {each.url.host}{each.url.path}" for each in asked] == [
        f"GET artifactregistry.googleapis.com/v1/{NAME}",
        f"PATCH artifactregistry.googleapis.com/v1/{NAME}",
    ]
    assert {each.headers["Authorization"] for each in asked} == {"Bearer google-token"}


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"image": "gcr.io/p-1/mine"}, "must be one of Artifact Registry"),
        ({"image": "registry.example/p-1/mine"}, "must be one of Artifact Registry"),
        ({"image": "mine", "keep_newest": 3}, "go together"),
        ({"image": "mine", "keep_newest": "many", "delete_after_days": 3}, "keep_newest"),
        ({"image": "mine", "keep_newest": 0, "delete_after_days": 3}, "at least 1 version"),
    ],
)
def test_wrong_arguments_fail_at_once_and_ask_nobody(
    asked: list[httpx.Request], arguments: dict[str, Any], rule: str
) -> None:
    with pytest.raises(AirflowFailException, match=rule):
        EnsureRepositoryOperator(task_id="repository", **arguments).execute(CONTEXT)

    assert asked == []
