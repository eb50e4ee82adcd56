"""
gcloud's commands for IAM policies, against a real service and object store.

Those of Google's guide, and those of least privilege.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from local_stack.stack import LocalStack
from tests.support.selection import cases

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.timeout(300)]

Gcloud = Callable[..., subprocess.CompletedProcess[str]]

AGENT = "serviceAccount:service-1@cloud-ml.google.com.iam.gserviceaccount.com"
PEOPLE = tuple(f"user:person{number}@example.com" for number in range(3))
REPOSITORY = ("artifacts", "repositories")
WHERE = ("--location", "local", "--project", "images-project")


@pytest.fixture(params=cases(["project", "bucket", "repository"], witnesses=["project"]))
def policy(request: pytest.FixtureRequest, gcloud: Gcloud, stack: LocalStack) -> Gcloud:
    """Runs ``<verb>-iam-policy...`` on one kind of resource: ``policy(verb, *flags)``."""
    commands: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "project": (("projects",), ("images-project",)),
        "bucket": (("storage", "buckets"), (f"gs://{stack.settings.bucket}",)),
        "repository": (REPOSITORY, ("digits", *WHERE)),
    }
    group, resource = commands[request.param]

    def run(verb: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return gcloud(*group, verb, *resource, *flags)

    return run


def bindings_of(policy: Gcloud) -> dict[str, list[str]]:
    done = policy("get-iam-policy", "--format=json")
    assert done.returncode == 0, done.stderr
    return {binding["role"]: binding["members"] for binding in json.loads(done.stdout).get("bindings", [])}


def test_a_binding_is_added_shown_and_removed(policy: Gcloud) -> None:
    binding = ("--member", AGENT, "--role", "roles/ml.serviceAgent")

    added = policy("add-iam-policy-binding", *binding)
    after_adding = bindings_of(policy)
    again = policy("add-iam-policy-binding", *binding)
    removed = policy("remove-iam-policy-binding", *binding)
    after_removing = bindings_of(policy)
    missing = policy("remove-iam-policy-binding", *binding)

    assert [done.returncode for done in (added, again, removed)] == [0, 0, 0], added.stderr + removed.stderr
    assert f"- {AGENT}" in added.stdout
    assert "role: roles/ml.serviceAgent" in added.stdout
    assert after_adding == {"roles/ml.serviceAgent": [AGENT]}
    assert after_removing == {}
    assert missing.returncode == 1
    assert "not found" in missing.stderr


def test_bindings_that_are_added_at_the_same_time_are_all_kept(policy: Gcloud) -> None:
    def add(member: str) -> int:
        return policy("add-iam-policy-binding", "--member", member, "--role", "roles/viewer").returncode

    with ThreadPoolExecutor(len(PEOPLE)) as pool:
        codes = list(pool.map(add, PEOPLE))

    # gcloud reads, adds and writes with the etag; whoever loses says so, or tries again, and nobody's grant
    # is lost.
    granted = bindings_of(policy)["roles/viewer"]
    assert 0 in codes
    assert {person for person, code in zip(PEOPLE, codes, strict=True) if code == 0} <= set(granted)


def test_a_member_that_is_no_principal_is_refused(policy: Gcloud) -> None:
    done = policy("add-iam-policy-binding", "--member", "somebody", "--role", "roles/viewer")

    assert done.returncode == 1
    assert "must be a principal such as user:EMAIL" in done.stderr


def test_a_condition_is_kept_with_its_binding(gcloud: Gcloud) -> None:
    condition = "expression=request.time < timestamp('2027-03-01T00:00:00Z'),title=until_spring"
    binding = ("--member", AGENT, "--role", "roles/ml.developer")

    added = gcloud("projects", "add-iam-policy-binding", "conditions", *binding, "--condition", condition)
    other = gcloud("projects", "add-iam-policy-binding", "conditions", *binding, "--condition", "None")
    shown = gcloud("projects", "get-iam-policy", "conditions", "--format=json")

    assert [done.returncode for done in (added, other, shown)] == [0, 0, 0], added.stderr + other.stderr
    found = json.loads(shown.stdout)["bindings"]
    assert sorted(binding.get("condition", {}).get("title", "") for binding in found) == ["", "until_spring"]


def test_an_unknown_bucket_is_not_found(gcloud: Gcloud) -> None:
    done = gcloud("storage", "buckets", "get-iam-policy", "gs://nobody-made-this-bucket")

    assert done.returncode == 1
    assert "not found" in done.stderr


def test_the_bucket_of_a_registry_takes_the_guides_grant(gcloud: Gcloud) -> None:
    bucket = "gs://eu.artifacts.images-project.appspot.com"
    binding = ("--member", AGENT, "--role", "roles/storage.objectViewer")

    done = gcloud("storage", "buckets", "add-iam-policy-binding", bucket, *binding)

    assert done.returncode == 0, done.stderr
    assert f"- {AGENT}" in done.stdout


def test_a_project_and_a_repository_are_described(gcloud: Gcloud) -> None:
    project = gcloud("projects", "describe", "images-project")
    repository = gcloud(*REPOSITORY, "describe", "digits", *WHERE)

    assert (project.returncode, repository.returncode) == (0, 0), repository.stderr
    assert "projectId: images-project" in project.stdout
    assert "format: DOCKER" in repository.stdout
