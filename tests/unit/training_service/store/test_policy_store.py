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
