"""The names of what has IAM policies."""

from __future__ import annotations

import pytest

from training_service.access.roles import JOB_SET_POLICY, ROLES
from training_service.model.resources import account_resource, job_resource, owner_policy


def test_a_job_is_in_its_project() -> None:
    assert job_resource("demo", "digits") == "projects/demo/jobs/digits"


@pytest.mark.parametrize(
    ("email", "project"),
    [
        ("sa@demo.iam.gserviceaccount.com", "demo"),
        ("sa@my-project-1.iam.gserviceaccount.com", "my-project-1"),
        ("service-1@cloud-ml.google.com.iam.gserviceaccount.com", "-"),
        ("ann@example.com", "-"),
        ("sa@demo.iam.gserviceaccount.com.evil.example", "-"),
        ("a/b@demo.iam.gserviceaccount.com", "-"),
        ("sa@1demo.iam.gserviceaccount.com", "-"),
    ],
)
def test_an_account_is_in_the_project_that_its_address_tells(email: str, project: str) -> None:
    assert account_resource(email) == f"projects/{project}/serviceAccounts/{email}"


def test_who_makes_a_job_may_say_who_else_may_see_it() -> None:
    (binding,) = owner_policy("user:ann@example.com").bindings or []

    assert binding.members == ["user:ann@example.com"]
    assert JOB_SET_POLICY in ROLES[binding.role or ""]
