"""IAM policies of the live service's registry, for tests that change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
