"""
Resources other than jobs that have IAM policies, in the form of their own APIs.

Only what clients of policies need.

Names are those of the discovery documents ``cloudresourcemanager.v1``, ``artifactregistry.v1`` and
``storage.v1``; a test compares them.
"""

from __future__ import annotations

from training_api.iam.wire import Binding
from training_api.wire import Int32, Int64, WireModel


class Project(WireModel):
    """``Project`` of Resource Manager v1."""

    project_id: str | None = None
    project_number: Int64 | None = None
    name: str | None = None
    lifecycle_state: str | None = None


class Repository(WireModel):
    """``Repository`` of Artifact Registry v1; ``format`` is always ``DOCKER`` here."""

    name: str | None = None
    format: str | None = None
    mode: str | None = None


class BucketPolicy(WireModel):
    """``Policy`` of Cloud Storage's JSON API: Google's policy, with the bucket's name in it."""

    kind: str | None = None
    resource_id: str | None = None
    version: Int32 | None = None
    etag: str | None = None
    bindings: list[Binding] | None = None


class BucketPermissions(WireModel):
    """``TestIamPermissionsResponse`` of Cloud Storage's JSON API."""

    kind: str | None = None
    permissions: list[str] | None = None
