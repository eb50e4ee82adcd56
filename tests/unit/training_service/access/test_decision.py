"""Who may do what: roles, members, the project's policy, and what needs no binding."""

from __future__ import annotations

import pytest

from training_api.dialects.registry import DIALECTS
from training_api.iam.wire import Binding, Expr, Policy
from training_api.job.service_agent import ServiceAgent
from training_service.access.decision import Caller, agent_principal, is_member, lineage, may, project_of
from training_service.access.roles import CUSTOM_JOB_CREATE, DOWNLOAD, JOB_CANCEL, JOB_CREATE, JOB_GET, ROLES

AGENTS = [each.agent for each in DIALECTS.values()]
ANN = "user:ann@example.com"
JOB = "projects/demo/jobs/j"
REPOSITORY = "projects/demo/locations/local/repositories/r"


def policy(role: str, *members: str, condition: Expr | None = None) -> Policy:
    return Policy(bindings=[Binding(role=role, members=list(members), condition=condition)])


@pytest.mark.parametrize(
    ("role", "permission", "is_allowed"),
    [
        ("roles/ml.viewer", JOB_GET, True),
        ("roles/ml.viewer", JOB_CREATE, False),
        ("roles/ml.developer", JOB_CREATE, True),
        ("roles/ml.developer", JOB_CANCEL, False),
        ("roles/ml.admin", JOB_CANCEL, True),
        ("roles/ml.jobOwner", "ml.jobs.setIamPolicy", True),
        ("roles/editor", "ml.jobs.setIamPolicy", False),
        ("roles/owner", "ml.jobs.setIamPolicy", True),
        ("roles/artifactregistry.reader", DOWNLOAD, True),
        ("roles/artifactregistry.reader", "artifactregistry.repositories.uploadArtifacts", False),
        ("roles/invented", JOB_GET, False),
        ("projects/demo/roles/custom", JOB_GET, False),
    ],
)
def test_a_role_grants_its_permissions_and_no_others(role: str, permission: str, is_allowed: bool) -> None:
    caller = Caller(principal=ANN)

    assert may(caller, permission, JOB, [policy(role, ANN)]) is is_allowed
    assert not may(Caller(principal="user:bob@example.com"), permission, JOB, [policy(role, ANN)])


def test_no_role_grants_what_no_route_needs() -> None:
    assert not any("service.routes.unlisted" in permissions for permissions in ROLES.values())


@pytest.mark.parametrize(
    ("member", "principal", "is_meant"),
    [
        ("allUsers", "", True),
        ("allAuthenticatedUsers", "", False),
        ("allAuthenticatedUsers", ANN, True),
        ("user:Ann@Example.com", ANN, True),
        ("domain:example.com", ANN, True),
        ("domain:example.com", "user:ann@not-example.com", False),
        ("domain:example.com", "serviceAccount:a@example.com", False),
        ("serviceAccount:ann@example.com", ANN, False),
        ("deleted:user:ann@example.com?uid=1", ANN, False),
        ("group:ann@example.com", ANN, False),
        ("", "", False),
    ],
)
def test_members(member: str, principal: str, is_meant: bool) -> None:
    assert is_member(principal, member) is is_meant


def test_a_binding_under_a_condition_grants_nothing() -> None:
    conditional = policy("roles/owner", ANN, condition=Expr(expression="true"))

    assert not may(Caller(principal=ANN), JOB_GET, JOB, [conditional])


def test_administrators_may_do_everything_and_others_what_their_roles_say_in_their_projects() -> None:
    assert may(Caller(is_admin=True), "anything", "anywhere", [])
    owner = Caller(principal=ANN, roles=frozenset({("demo", "roles/owner"), ("demo2", "roles/ml.viewer")}))
    assert may(owner, JOB_CANCEL, JOB, [])
    assert may(owner, JOB_GET, "projects/demo2/jobs/j", [])
    assert not may(owner, JOB_CANCEL, "projects/demo2/jobs/j", [])
    assert not may(owner, "service.routes.unlisted", "projects/demo", [])


@pytest.mark.parametrize("own", AGENTS)
def test_a_service_agent_may_read_its_own_projects_images_and_no_others(own: ServiceAgent) -> None:
    agent = Caller(principal=agent_principal(own, "demo"))

    assert may(agent, DOWNLOAD, REPOSITORY, [], AGENTS)
    assert may(agent, "storage.objects.get", "buckets/eu.artifacts.demo.appspot.com", [], AGENTS)
    assert not may(agent, DOWNLOAD, REPOSITORY.replace("demo", "other"), [], AGENTS)
    assert not may(agent, JOB_CREATE, "projects/demo", [], AGENTS)
    assert not may(agent, CUSTOM_JOB_CREATE, "projects/demo", [], AGENTS)
    assert not may(agent, DOWNLOAD, REPOSITORY, [])


def test_a_grant_to_one_service_agent_is_none_to_the_other() -> None:
    first, second = (Caller(principal=agent_principal(agent, "other")) for agent in AGENTS)
    policies = [policy("roles/artifactregistry.reader", first.principal)]

    assert may(first, DOWNLOAD, REPOSITORY, policies, AGENTS)
    assert not may(second, DOWNLOAD, REPOSITORY, policies, AGENTS)


@pytest.mark.parametrize(
    ("resource", "project"),
    [
        ("projects/demo", "demo"),
        (JOB, "demo"),
        ("buckets/artifacts.demo.appspot.com", "demo"),
        ("buckets/us.artifacts.demo.appspot.com", "demo"),
        ("buckets/artifacts.demo.example.com.a.appspot.com", "example.com:demo"),
        ("buckets/demo-bucket", None),
        ("projects/", None),
        ("the service", None),
    ],
)
def test_a_resources_project_is_read_off_its_name(resource: str, project: str | None) -> None:
    assert project_of(resource) == project


def test_a_resource_is_decided_by_its_own_policy_and_its_projects() -> None:
    assert lineage(JOB) == (JOB, "projects/demo")
    assert lineage("projects/demo") == ("projects/demo",)
    assert lineage("buckets/b") == ("buckets/b",)
