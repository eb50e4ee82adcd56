"""Which role may what: the wider ones have all that the narrower ones have."""

from __future__ import annotations

import pytest

from training_service.access.roles import (
    ACT_AS,
    CUSTOM_JOB_CREATE,
    CUSTOM_JOB_DELETE,
    CUSTOM_JOB_GET,
    DELETE,
    DOWNLOAD,
    JOB_CREATE,
    JOB_GET,
    JOB_LIST,
    JOB_SET_POLICY,
    LOG_LIST,
    OBJECT_GET,
    ROLES,
    UPLOAD,
)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("roles/viewer", "roles/editor"),
        ("roles/editor", "roles/owner"),
        ("roles/ml.viewer", "roles/ml.developer"),
        ("roles/ml.developer", "roles/ml.admin"),
        ("roles/ml.jobOwner", "roles/ml.admin"),
        ("roles/ml.viewer", "roles/viewer"),
        ("roles/storage.objectViewer", "roles/storage.objectAdmin"),
        ("roles/storage.objectAdmin", "roles/storage.admin"),
        ("roles/artifactregistry.reader", "roles/artifactregistry.writer"),
        ("roles/artifactregistry.writer", "roles/artifactregistry.repoAdmin"),
        ("roles/artifactregistry.repoAdmin", "roles/artifactregistry.admin"),
        ("roles/artifactregistry.reader", "roles/viewer"),
    ],
)
def test_a_wider_role_has_all_that_a_narrower_one_has(narrow: str, wide: str) -> None:
    assert ROLES[narrow] < ROLES[wide]


@pytest.mark.parametrize(
    ("role", "has", "lacks"),
    [
        ("roles/ml.viewer", {JOB_GET, JOB_LIST}, {JOB_CREATE, LOG_LIST}),
        ("roles/ml.developer", {JOB_CREATE}, {JOB_SET_POLICY, ACT_AS}),
        ("roles/ml.jobOwner", {JOB_GET, JOB_SET_POLICY}, {LOG_LIST, DOWNLOAD}),
        ("roles/editor", {JOB_CREATE, UPLOAD, DELETE, ACT_AS}, {JOB_SET_POLICY}),
        ("roles/artifactregistry.reader", {DOWNLOAD}, {UPLOAD, DELETE, OBJECT_GET}),
        ("roles/ml.serviceAgent", {DOWNLOAD, OBJECT_GET}, {JOB_GET, UPLOAD}),
        ("roles/iam.serviceAccountUser", {ACT_AS}, {JOB_GET}),
        # The ops API shows the jobs of both APIs: the roles of one do not open it.
        ("roles/aiplatform.viewer", {CUSTOM_JOB_GET}, {JOB_GET, JOB_LIST, LOG_LIST}),
        ("roles/aiplatform.user", {CUSTOM_JOB_CREATE}, {JOB_GET, JOB_LIST, LOG_LIST, ACT_AS}),
        ("roles/aiplatform.admin", {CUSTOM_JOB_DELETE}, {JOB_GET, JOB_LIST, LOG_LIST}),
    ],
)
def test_a_role_has_what_its_page_says_and_no_more(role: str, has: set[str], lacks: set[str]) -> None:
    assert has <= ROLES[role]
    assert not lacks & ROLES[role]


def test_only_owners_and_who_looks_after_policies_may_set_those_of_projects() -> None:
    permission = "resourcemanager.projects.setIamPolicy"

    assert {role for role, permissions in ROLES.items() if permission in permissions} == {
        "roles/owner",
        "roles/iam.securityAdmin",
        "roles/resourcemanager.projectIamAdmin",
    }
