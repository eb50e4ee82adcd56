"""Policies of resources that nobody keeps: any name has one."""

from __future__ import annotations

import pytest

from tests.support.fakes.world import World
from training_api.errors import EditConflict, InvalidRequest
from training_api.iam.policy import ON_BUCKETS
from training_api.iam.wire import Binding, Policy, SetIamPolicyRequest
from training_service.store.policy_store import PolicyStore
from training_service.use_cases.policies import Policies

READER = Binding(role="roles/storage.objectViewer", members=["user:ann@example.com"])


@pytest.fixture
def policies(world: World) -> Policies:
    return Policies(PolicyStore(world.database))


def request(*bindings: Binding, etag: str | None = None) -> SetIamPolicyRequest:
    return SetIamPolicyRequest(policy=Policy(bindings=list(bindings), etag=etag))


def test_a_resource_that_nobody_has_named_has_the_empty_policy(policies: Policies) -> None:
    policy = policies.get("buckets/data")

    assert policy.bindings is None
    assert policy.etag


def test_every_write_has_an_etag_of_its_own(policies: Policies) -> None:
    etags = [policies.get("buckets/data").etag]
    etags += [policies.set("buckets/data", request(READER)).etag for _ in range(2)]

    assert len(set(etags)) == 3
    assert policies.get("buckets/data").etag == etags[-1]


def test_policies_of_other_resources_stay_as_they_are(policies: Policies) -> None:
    policies.set("buckets/data", request(READER))

    assert policies.get("buckets/data2").bindings is None


class SlowStore(PolicyStore):
    """Somebody else writes between each read and the write that follows, so often."""

    rivals = 0

    def replace(self, resource: str, policy: Policy, *, seen_version: int) -> bool:
        if self.rivals:
            self.rivals -= 1
            super().replace(resource, Policy(), seen_version=seen_version)
        return super().replace(resource, policy, seen_version=seen_version)


def test_a_writer_without_an_etag_comes_through_between_others(world: World) -> None:
    store = SlowStore(world.database)
    store.rivals = 2

    written = Policies(store).set("buckets/data", request(READER))

    assert written.bindings == [READER]
    assert Policies(store).get("buckets/data") == written


def test_a_writer_with_an_etag_is_told_of_the_other(world: World) -> None:
    store = SlowStore(world.database)
    etag = Policies(store).get("buckets/data").etag
    store.rivals = 1

    with pytest.raises(EditConflict, match="'buckets/data' has changed since etag"):
        Policies(store).set("buckets/data", request(READER, etag=etag))

    assert Policies(store).get("buckets/data").bindings is None


def test_permissions_are_told_once_in_the_order_of_the_question() -> None:
    asked = ["storage.objects.list", "storage.objects.get", "storage.objects.list"]

    assert Policies.test(asked, ON_BUCKETS, lambda _: True) == asked[:2]
    assert Policies.test(asked, ON_BUCKETS, lambda _: False) == []
    with pytest.raises(InvalidRequest, match=r"ml\.jobs\.get"):
        Policies.test(["ml.jobs.get"], ON_BUCKETS, lambda _: True)
