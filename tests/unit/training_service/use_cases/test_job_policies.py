"""Policies of jobs: etags, conditions and permissions, of jobs that exist."""

from __future__ import annotations

import threading

import pytest

from tests.support.fakes.world import PROJECT, World
from training_api.errors import EditConflict, InvalidRequest, JobNotFound
from training_api.iam.policy import JOB_PERMISSIONS
from training_api.iam.wire import Binding, Expr, Policy, SetIamPolicyRequest
from training_service.store.policy_store import PolicyStore
from training_service.use_cases.job_policies import JobPolicies
from training_service.use_cases.policies import Policies

VIEWER = Binding(role="roles/ml.viewer", members=["user:ann@example.com"])


EXPIRES = Expr(title="until spring", expression="request.time < timestamp('2027-03-01T00:00:00Z')")


@pytest.fixture
def policies(world: World) -> JobPolicies:
    world.submit()
    return JobPolicies(world.ml_v1_jobs, Policies(PolicyStore(world.database)))


def request(*bindings: Binding, **changes: object) -> SetIamPolicyRequest:
    policy = Policy(bindings=list(bindings)).model_copy(update=changes)
    return SetIamPolicyRequest(policy=policy)


def test_concurrent_read_modify_writes_lose_nothing(policies: JobPolicies) -> None:
    """
    A client reads, adds a member, and writes with the etag.

    It starts again on a conflict.
    """
    members = [f"user:{number}@example.com" for number in range(8)]

    def grant(member: str) -> None:
        while True:
            policy = policies.get(PROJECT, "job")
            held = [name for binding in policy.bindings or [] for name in binding.members or []]
            wanted = Binding(role="roles/ml.viewer", members=[*held, member])
            try:
                policies.set(PROJECT, "job", request(wanted, etag=policy.etag))
            except EditConflict:
                continue
            return

    threads = [threading.Thread(target=grant, args=[member]) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (binding,) = policies.get(PROJECT, "job").bindings or []
    assert sorted(binding.members or []) == members


def test_stale_etag_is_a_conflict_and_writes_nothing(policies: JobPolicies) -> None:
    empty = policies.get(PROJECT, "job")
    written = policies.set(PROJECT, "job", request(VIEWER, etag=empty.etag))

    with pytest.raises(EditConflict, match="has changed since etag") as caught:
        policies.set(PROJECT, "job", request(etag=empty.etag))

    assert (caught.value.code, caught.value.status) == (409, "ABORTED")
    assert policies.get(PROJECT, "job") == written


def test_without_an_etag_the_last_writer_wins(policies: JobPolicies) -> None:
    policies.set(PROJECT, "job", request(VIEWER))

    assert policies.set(PROJECT, "job", request()).bindings is None


def test_conditions_are_accepted_and_shown_in_version_3_only(policies: JobPolicies) -> None:
    conditional = VIEWER.model_copy(update={"condition": EXPIRES})

    with pytest.raises(InvalidRequest, match=r"policy.version: must be 3 .* got 1"):
        policies.set(PROJECT, "job", request(conditional, version=1))
    written = policies.set(PROJECT, "job", request(conditional, version=3))

    assert written.version == 3
    assert policies.get(PROJECT, "job", 3).bindings == [conditional]
    with pytest.raises(InvalidRequest, match=r"options.requestedPolicyVersion: must be 3"):
        policies.get(PROJECT, "job", 1)


def test_writer_who_knows_no_conditions_cannot_drop_them_unseen(policies: JobPolicies) -> None:
    conditional = VIEWER.model_copy(update={"condition": EXPIRES})
    written = policies.set(PROJECT, "job", request(conditional, version=3))

    with pytest.raises(InvalidRequest, match=r"policy.version"):
        policies.set(PROJECT, "job", request(VIEWER, version=1, etag=written.etag))

    assert policies.set(PROJECT, "job", request(VIEWER, version=3, etag=written.etag)).version == 1


def test_policy_of_an_unknown_job_is_not_found(policies: JobPolicies) -> None:
    with pytest.raises(JobNotFound):
        policies.get(PROJECT, "absent")
    with pytest.raises(JobNotFound):
        policies.set(PROJECT, "absent", request())


def test_the_caller_has_what_the_gate_says_and_nothing_of_an_unknown_job(policies: JobPolicies) -> None:
    asked = [*sorted(JOB_PERMISSIONS), "ml.jobs.get"]

    assert policies.test(PROJECT, "job", asked, lambda _: True) == sorted(JOB_PERMISSIONS)
    assert policies.test(PROJECT, "job", asked, lambda name: name == "ml.jobs.get") == ["ml.jobs.get"]
    assert policies.test(PROJECT, "absent", asked, lambda _: True) == []


@pytest.mark.parametrize("name", ["ml.jobs.*", "ml.jobs.fly", "storage.objects.get", ""])
def test_unknown_permission_is_refused_by_name(policies: JobPolicies, name: str) -> None:
    with pytest.raises(InvalidRequest, match="permissions: must be of") as caught:
        policies.test(PROJECT, "job", ["ml.jobs.get", name], lambda _: True)

    assert repr(name) in str(caught.value)
