"""IAM policies of the live service's registry, and the operators that change them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from container_training.operators.registry_iam import (
    GrantRegistryAccessOperator,
    RevokeRegistryAccessOperator,
)
from tests.integration.live_service import LiveService
from training_api.clients.iam import IamEndpoints, IamPoliciesClient
from training_api.iam.grants import Grant
from training_api.iam.registry_resources import ResourceKind

READER, VIEWER = "roles/artifactregistry.reader", "roles/storage.objectViewer"
LOCAL = "127.0.0.1:5000/images/digits:1"
LOCAL_RESOURCE = "projects/images/locations/local/repositories/digits"


def client_of(url: str, **options: Any) -> IamPoliciesClient:
    endpoints = IamEndpoints(resource_manager=url, artifact_registry=url, storage=url)
    return IamPoliciesClient(endpoints, **options)


def bindings(iam: IamPoliciesClient, kind: ResourceKind, resource: str) -> list[Mapping[str, Any]]:
    return list(iam.get_policy(kind, resource).get("bindings", []))


def make_grant(number: int) -> Grant:
    member = f"serviceAccount:service-{number}@cloud-ml.google.com.iam.gserviceaccount.com"
    return Grant(kind=ResourceKind.REPOSITORY, resource=LOCAL_RESOURCE, role=READER, member=member)


def add(iam: IamPoliciesClient, given: Grant) -> bool:
    edit = iam.edit_policy(
        given.kind, given.resource, lambda policy: None if given.is_in(policy) else given.added_to(policy)
    )
    return edit.was_written


def remove(iam: IamPoliciesClient, given: Grant) -> bool:
    edit = iam.edit_policy(
        given.kind, given.resource, lambda policy: given.removed_from(policy) if given.is_in(policy) else None
    )
    return edit.was_written


def connect(monkeypatch: pytest.MonkeyPatch, service: LiveService, **changes: Any) -> None:
    connection = {
        "conn_type": "container_training",
        "host": service.endpoint,
        "extra": {"project": "demo-project", **changes.pop("extra", {})},
        **changes,
    }
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING_DEFAULT", json.dumps(connection))


def grant(context: Any, image: str = LOCAL, **arguments: Any) -> dict[str, Any]:
    return GrantRegistryAccessOperator(task_id="grant", image=image, **arguments).execute(context)


def revoke(given: Any, **arguments: Any) -> dict[str, Any]:
    return RevokeRegistryAccessOperator(task_id="revoke", grant=given, **arguments).execute({})  # type: ignore[arg-type]
