"""Which endpoints hold the policies, and who is told which secret."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from google.oauth2.credentials import Credentials

from container_training.hooks.registry_iam import RegistryIamHook, iam_endpoints
from training_api.clients.iam import IamEndpoints
from training_api.iam.registry_resources import ResourceKind

LOCAL = "http://127.0.0.1:8470"


def connect(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> RegistryIamHook:
    connection = {"conn_type": "container_training", "host": LOCAL, "password": "local-token", **changes}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))
    return RegistryIamHook()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, IamEndpoints(resource_manager=LOCAL, artifact_registry=LOCAL, storage=LOCAL)),
        ({"host": "https://ml.googleapis.com"}, IamEndpoints()),
        ({"host": "", "conn_type": "vertex_training"}, IamEndpoints()),
        (
            {"host": f"{LOCAL}/vertex/", "conn_type": "vertex_training"},
            IamEndpoints(resource_manager=LOCAL, artifact_registry=LOCAL, storage=LOCAL),
        ),
        (
            {"host": "http://127.0.0.1/vertex", "port": 8470, "conn_type": "vertex_training"},
            IamEndpoints(resource_manager=LOCAL, artifact_registry=LOCAL, storage=LOCAL),
        ),
        (
            # As Vertex AI's client reads it: the token must not travel in clear.
            {"host": "h.test", "port": 8470, "conn_type": "vertex_training"},
            IamEndpoints(
                resource_manager="https://h.test:8470",
                artifact_registry="https://h.test:8470",
                storage="https://h.test:8470",
            ),
        ),
        ({"host": "us-central1-ml.googleapis.com", "schema": "https"}, IamEndpoints()),
        (
            {"extra": {"storage_endpoint": "http://127.0.0.1:9023"}},
            IamEndpoints(resource_manager=LOCAL, artifact_registry=LOCAL, storage="http://127.0.0.1:9023"),
        ),
    ],
)
def test_policies_are_where_the_training_service_is_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], expected: IamEndpoints
) -> None:
    hook = connect(monkeypatch, **changes)

    assert iam_endpoints(hook.get_connection("training_default")) == expected


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        ("https://storage.googleapis.com", "Bearer google-token"),
        (LOCAL, "Bearer local-token"),
        ("http://storage.googleapis.com", "Bearer local-token"),
        ("https://storage.googleapis.com.example.com", "Bearer local-token"),
    ],
)
def test_googles_token_goes_to_google_over_tls_only_and_the_services_token_never(
    monkeypatch: pytest.MonkeyPatch, storage: str, expected: str
) -> None:
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

    seen: list[httpx.Request] = []

    def handle(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"etag": "e"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", "google-cloud-platform://")
    monkeypatch.setattr(GoogleBaseHook, "get_credentials", lambda _: Credentials(token="google-token"))
    hook = connect(monkeypatch, extra={"storage_endpoint": storage})

    with hook.get_conn() as client:
        client.get_policy(ResourceKind.BUCKET, "buckets/b")

    (request,) = seen
    assert request.headers["Authorization"] == expected
    assert str(request.url) == f"{storage}/storage/v1/b/b/iam?optionsRequestedPolicyVersion=3"


def test_without_a_password_no_token_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx.Request] = []

    def handle(_: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"etag": "e"})

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
    hook = connect(monkeypatch, password="")

    with hook.get_conn() as client:
        client.get_policy(ResourceKind.PROJECT, "projects/p")

    assert "Authorization" not in seen[0].headers


def test_google_is_asked_as_whom_the_training_connection_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.google.common.hooks.base_google import GoogleBaseHook

    asked: list[tuple[str, Any]] = []

    def get_credentials(hook: GoogleBaseHook) -> Credentials:
        asked.append((hook.gcp_conn_id, hook.impersonation_chain))
        return Credentials(token="google-token")

    monkeypatch.setattr(
        httpx.HTTPTransport, "handle_request", lambda *_: httpx.Response(200, json={"etag": "e"})
    )
    monkeypatch.setattr(GoogleBaseHook, "get_credentials", get_credentials)
    for name in ("MINE", "OTHER"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", "google-cloud-platform://")
    extra = {
        "storage_endpoint": "https://storage.googleapis.com",
        "gcp_conn_id": "mine",
        "impersonation_chain": ["a@x.test"],
    }

    for hook in (connect(monkeypatch, extra=extra), RegistryIamHook("training_default", "other")):
        with hook.get_conn() as client:
            client.get_policy(ResourceKind.BUCKET, "buckets/b")

    assert asked == [("mine", ("a@x.test",)), ("other", ("a@x.test",))]
