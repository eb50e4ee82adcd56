"""The resources beside jobs against the discovery documents of their own APIs."""

from __future__ import annotations

import pytest

from tests.support.discovery import schemas, wire_names
from training_api.iam import resource_wire
from training_api.wire import WireModel


@pytest.mark.parametrize(
    ("model", "document", "schema"),
    [
        (resource_wire.Project, "cloudresourcemanager.v1", "Project"),
        (resource_wire.Repository, "artifactregistry.v1", "Repository"),
        (resource_wire.BucketPolicy, "storage.v1", "Policy"),
        (resource_wire.BucketPermissions, "storage.v1", "TestIamPermissionsResponse"),
    ],
)
def test_fields_are_those_of_the_discovery_document(
    model: type[WireModel], document: str, schema: str
) -> None:
    assert wire_names(model) <= set(schemas(document)[schema]["properties"])


def test_a_projects_number_goes_over_the_wire_as_text() -> None:
    assert resource_wire.Project(project_number=2**63 - 1).to_wire() == {
        "projectNumber": "9223372036854775807"
    }
