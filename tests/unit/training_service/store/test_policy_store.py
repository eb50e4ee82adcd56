"""IAM policies are kept by resource, and written only over the version that was read."""

from __future__ import annotations

import pytest

from tests.support.fakes.world import World
from training_api.iam.wire import Binding, Policy
from training_service.store.database import open_database
from training_service.store.policy_store import PolicyStore

VIEWER = Binding(role="roles/ml.viewer", members=["user:ann@example.com"])


@pytest.fixture
def store(world: World) -> PolicyStore:
    return PolicyStore(world.database)


def test_unknown_resource_has_the_empty_policy_at_version_0(store: PolicyStore) -> None:
    stored = store.get("projects/p/jobs/j")

    assert (stored.policy, stored.version) == (Policy(), 0)


def test_policy_is_kept_by_resource_and_outlives_the_service(world: World, store: PolicyStore) -> None:
    policy = Policy(bindings=[VIEWER], version=1)

    assert store.replace("projects/p/jobs/j", policy, seen_version=0)

    again = PolicyStore(open_database(world.database.url.render_as_string()))
    assert (again.get("projects/p/jobs/j").policy, again.get("projects/p/jobs/j").version) == (policy, 1)
    assert again.get("projects/q/jobs/j").version == 0


@pytest.mark.parametrize("seen_version", [0, 1, 3])
def test_write_over_another_version_writes_nothing(store: PolicyStore, seen_version: int) -> None:
    store.replace("r", Policy(), seen_version=0)
    store.replace("r", Policy(bindings=[VIEWER]), seen_version=1)

    assert not store.replace("r", Policy(), seen_version=seen_version)

    assert store.get("r").policy.bindings == [VIEWER]
    assert store.get("r").version == 2


def test_concurrent_read_modify_writes_lose_nothing(policies: JobPolicies) -> None:
    """As a client does it: read, add a member, write with the etag; on a conflict start again."""
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
