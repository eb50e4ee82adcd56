"""What the container of a job may do in the object store."""

from __future__ import annotations

from typing import Any

import pytest

from container_engines.memory.engine import Behaviour
from tests.support.fakes.studies import search
from tests.support.fakes.world import PROJECT, World
from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.dialects.registry import DIALECTS
from training_api.errors import EngineUnavailable, ServiceUnavailable
from training_api.iam.wire import Binding, Policy
from training_service.access.decision import Caller, may
from training_service.store.database import open_database
from training_service.use_cases.object_access import ObjectAccess, ObjectAnswer, ObjectQuestion

FIRST, SECOND, A_PERSONS, NOBODY = "127.1.0.1", "127.1.0.2", "127.1.0.8", "127.1.0.9"
CREATE, DELETE, GET = "storage.objects.create", "storage.objects.delete", "storage.objects.get"
ALL = ObjectAnswer(allowed=True, may_replace=True)
NEW_ONLY = ObjectAnswer(allowed=True, may_replace=False)


class Rules:
    """The policies of buckets, and what asks them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.policies: dict[str, Policy] = {}
        self.access = ObjectAccess(world.engine.job_at, world.store, self.may, DIALECTS)

    def may(self, caller: Caller, permission: str, resource: str) -> bool:
        return may(caller, permission, resource, [self.policies.get(resource, Policy())])

    def grant(self, bucket: str, role: str, member: str) -> None:
        self.policies[f"buckets/{bucket}"] = Policy(bindings=[Binding(role=role, members=[member])])

    def ask(self, name: str, permission: str = CREATE, address: str = FIRST, **more: str) -> ObjectAnswer:
        asked: dict[str, Any] = {"bucket": "team", "project": PROJECT, **more}
        return self.access.check(ObjectQuestion(address=address, permission=permission, name=name, **asked))


@pytest.fixture
def world() -> World:
    """A world in which two jobs run; the second one has no directory."""
    world = World(open_database("sqlite://"))
    world.add_image(Behaviour(run_seconds=60))
    world.submit("first", job_dir="gs://team/jobs/first")
    world.submit("second", service_account="trainer@p.iam.gserviceaccount.com")
    world.settle()
    return world


@pytest.fixture
def rules(world: World) -> Rules:
    """The rules of the world."""
    return Rules(world)


@pytest.mark.parametrize("permission", [CREATE, DELETE, "storage.objects.update"])
def test_a_job_writes_below_its_directory(rules: Rules, permission: str) -> None:
    assert rules.ask("jobs/first/model", permission) == ALL
    assert rules.ask("jobs/first/", permission) == ALL


@pytest.mark.parametrize(
    "name", ["jobs/first", "jobs/firstly/model", "jobs/second/model", "model", "../jobs/first/model"]
)
def test_a_job_writes_nowhere_else(rules: Rules, name: str) -> None:
    answer = rules.ask(name)

    assert not answer.allowed
    assert f"job {PROJECT}/first does not have {CREATE} on gs://team/{name}" in answer.reason
    assert "writes below its job directory gs://team/jobs/first/" in answer.reason
    agent = ML_AGENT.email(PROJECT)
    assert f"add-iam-policy-binding gs://team --member=serviceAccount:{agent}" in answer.reason


def test_a_directory_in_another_bucket_is_not_in_this_one(rules: Rules) -> None:
    assert not rules.ask("jobs/first/model", bucket="other").allowed


@pytest.mark.parametrize("permission", [CREATE, DELETE, GET])
def test_a_directory_in_a_bucket_of_another_project_gives_no_right_to_it(
    rules: Rules, permission: str
) -> None:
    answer = rules.ask("jobs/first/model", permission, project="another")

    assert not answer.allowed
    assert "in the buckets of its project it reads all" in answer.reason


def test_a_job_without_a_directory_writes_nowhere(rules: Rules) -> None:
    answer = rules.ask("x", address=SECOND)

    assert not answer.allowed
    assert "has no job directory to write to" in answer.reason


@pytest.mark.parametrize(
    "permission", [GET, "storage.objects.list", "storage.buckets.get", "storage.buckets.list"]
)
def test_a_job_reads_the_buckets_of_its_project(rules: Rules, permission: str) -> None:
    assert rules.ask("anything", permission).allowed
    assert rules.ask("", permission, project="").allowed
    assert not rules.ask("anything", permission, project="another").allowed


def test_a_policy_gives_more_to_an_account(rules: Rules) -> None:
    rules.grant("team", "roles/storage.objectAdmin", "serviceAccount:trainer@p.iam.gserviceaccount.com")

    assert rules.ask("x", address=SECOND) == ALL
    assert not rules.ask("x", address=FIRST).allowed


def test_who_may_create_and_not_delete_replaces_nothing(rules: Rules) -> None:
    agent = ML_AGENT.email(PROJECT)
    rules.grant("team", "roles/storage.objectCreator", f"serviceAccount:{agent}")

    assert rules.ask("x") == NEW_ONLY
    assert not rules.ask("x", DELETE).allowed


def test_the_bucket_of_another_project_is_read_by_policy(rules: Rules) -> None:
    rules.grant("team", "roles/storage.objectViewer", "allAuthenticatedUsers")

    assert rules.ask("x", GET, project="another").allowed
    assert not rules.ask("x", CREATE, project="another").allowed


def test_a_trial_writes_below_its_own_directory() -> None:
    world = World(open_database("sqlite://"))
    world.add_image(Behaviour(run_seconds=60))
    world.submit("study", job_dir="gs://team/study", hyperparameters=search())
    world.settle()
    rules = Rules(world)

    assert rules.ask("study/1/model").allowed
    assert not rules.ask("study/2/model").allowed
    assert not rules.ask("study/model").allowed
    assert rules.ask("study/2/model", address=SECOND).allowed


def test_a_container_that_a_person_started_may_do_all(rules: Rules) -> None:
    rules.world.engine.addresses_of_others.add(A_PERSONS)

    assert rules.ask("x", address=A_PERSONS) == ALL


def test_an_address_that_nobody_has_may_do_nothing(rules: Rules) -> None:
    answer = rules.ask("x", GET, address=NOBODY)

    assert not answer.allowed
    assert f"no running container has the address {NOBODY}" in answer.reason


def test_a_job_that_has_ended_has_no_address(rules: Rules) -> None:
    rules.world.engine.advance(61)

    assert not rules.ask("jobs/first/x").allowed


def test_the_job_of_another_service_may_do_nothing(world: World) -> None:
    access = ObjectAccess(lambda address: "f" * 16, world.store, lambda *_: True, DIALECTS)

    answer = access.check(ObjectQuestion(address=FIRST, permission=GET, bucket="team"))

    assert not answer.allowed
    assert "another training service" in answer.reason


def test_an_engine_that_does_not_answer_is_no_yes(world: World) -> None:
    def silent(address: str) -> str | None:
        raise EngineUnavailable("no answer")

    access = ObjectAccess(silent, world.store, lambda *_: True, DIALECTS)

    with pytest.raises(ServiceUnavailable, match="who has the address"):
        access.check(ObjectQuestion(address=FIRST, permission=GET, bucket="team"))
