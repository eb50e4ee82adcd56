"""Whether a policy lets a member pull, and when it does not say so alone."""

from __future__ import annotations

from typing import Any

import pytest

from training_api.iam.pulling import PULLING_ROLES, may_pull
from training_api.iam.registry_resources import ResourceKind
from training_service.access.roles import DOWNLOAD, OBJECT_GET, ROLES

ME = "serviceAccount:service-1@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
READER = "roles/artifactregistry.reader"


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ({"role": READER, "members": [ME]}, True),
        ({"role": "roles/owner", "members": ["user:a@x.test", ME]}, True),
        ({"role": READER, "members": ["allUsers"]}, True),
        ({"role": READER, "members": ["user:a@x.test"]}, False),
        ({"role": "roles/logging.viewer", "members": [ME]}, False),
        ({"role": "roles/storage.objectViewer", "members": [ME]}, False),
        ({"role": READER, "members": [ME], "condition": {"expression": "false"}}, None),
        ({"role": READER, "members": ["group:all@x.test"]}, None),
        ({"role": "projects/p/roles/puller", "members": [ME]}, None),
        ({"role": "projects/p/roles/puller", "members": ["group:all@x.test"]}, False),
        ({"role": READER}, False),
    ],
)
def test_a_binding_lets_in_or_does_not_or_leaves_it_open(
    binding: dict[str, Any], expected: bool | None
) -> None:
    assert may_pull({"bindings": [binding]}, ME, ResourceKind.REPOSITORY) is expected


def test_a_plain_binding_decides_beside_a_doubtful_one() -> None:
    doubtful = {"role": READER, "members": ["domain:x.test"]}

    policy = {"bindings": [doubtful, {"role": READER, "members": [ME]}]}

    assert may_pull(policy, ME, ResourceKind.REPOSITORY) is True
    assert may_pull({}, ME, ResourceKind.REPOSITORY) is False


@pytest.mark.parametrize(
    ("kind", "right"), [(ResourceKind.REPOSITORY, DOWNLOAD), (ResourceKind.BUCKET, OBJECT_GET)]
)
def test_the_services_own_table_of_roles_agrees(kind: ResourceKind, right: str) -> None:
    known = {role: right in rights for role, rights in ROLES.items() if role in PULLING_ROLES[kind]}

    assert len(known) >= 5
    assert all(known.values()), known
