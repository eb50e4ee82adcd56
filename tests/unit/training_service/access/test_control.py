"""The gate: who asks, and what the policies of now let them do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.fakes.world import World
from training_api.errors import AccessDenied
from training_api.iam.wire import Binding, Policy
from training_service.access.control import AccessControl
from training_service.access.decision import Caller
from training_service.access.identity import Authenticator, IdentityTokens, Unauthenticated
from training_service.access.roles import JOB_GET, JOB_SET_POLICY, POLICY_WRITES, SECRET_ACCESS
from training_service.access.signing_key import SigningKey
from training_service.access.tokens_file import digest_of
from training_service.store.policy_store import PolicyStore

TOKEN = "token-of-ann-0123456789"
ANN = Caller(principal="user:ann@example.com")
JOB = "projects/demo/jobs/job"


@pytest.fixture
def policies(world: World) -> PolicyStore:
    return PolicyStore(world.database)


@pytest.fixture
def gate(policies: PolicyStore) -> Callable[..., AccessControl]:
    """Return a function that returns a gate, open or guarded."""
    authenticator = Authenticator({digest_of(TOKEN): ANN}, IdentityTokens(SigningKey.generate()))
    return lambda *, is_required: AccessControl(policies, authenticator, agents=[], is_required=is_required)


def bind(policies: PolicyStore, resource: str, role: str) -> None:
    policy = Policy(bindings=[Binding(role=role, members=[ANN.principal])])
    assert policies.replace(resource, policy, seen_version=policies.get(resource).version)


@pytest.mark.parametrize("header", [None, "Bearer of-nobody-0123456789", "Basic YTpi", "Bearer "])
def test_an_open_service_takes_everybody_for_an_administrator(
    gate: Callable[..., AccessControl], header: str | None
) -> None:
    control = gate(is_required=False)

    caller = control.identify(header)

    assert (caller.principal, caller.is_admin) == ("", True)
    assert control.may(caller, JOB_GET, JOB)


def test_an_open_service_knows_whom_it_can(gate: Callable[..., AccessControl]) -> None:
    assert gate(is_required=False).identify(f"Bearer {TOKEN}").principal == ANN.principal


def test_an_open_service_lets_those_of_its_tokens_file_alone_write_policies_and_name_secrets(
    world: World,
) -> None:
    policies, key = PolicyStore(world.database), SigningKey.generate()
    identities = IdentityTokens(key)
    listed = Caller(principal="user:ann@example.com", is_listed=True)
    with_file = AccessControl(policies, Authenticator({digest_of(TOKEN): listed}, identities), agents=[])
    without_file = AccessControl(policies, Authenticator({}, identities), agents=[])
    job = f"Bearer {identities.issue('serviceAccount:job@example.com')}"

    for permission in {*POLICY_WRITES, SECRET_ACCESS}:
        for header in (None, "Bearer of-nobody-0123456789", job):
            assert not with_file.may(with_file.identify(header), permission, "projects/demo")
            with pytest.raises(AccessDenied, match="`make env` gives"):
                with_file.check(with_file.identify(header), permission, "projects/demo")
            assert without_file.may(without_file.identify(header), permission, "projects/demo")
        assert with_file.may(with_file.identify(f"Bearer {TOKEN}"), permission, "projects/demo")
    assert with_file.may(with_file.identify(None), JOB_GET, JOB)


@pytest.mark.parametrize("header", [None, "Bearer of-nobody-0123456789", "Basic YTpi"])
def test_a_guarded_service_lets_in_who_has_a_token(
    gate: Callable[..., AccessControl], header: str | None
) -> None:
    control = gate(is_required=True)

    assert control.identify(f"Bearer {TOKEN}") == ANN
    with pytest.raises(Unauthenticated):
        control.identify(header)


@pytest.mark.parametrize("resource", [JOB, "projects/demo"])
def test_a_role_on_a_resource_or_on_what_it_is_in_counts(
    gate: Callable[..., AccessControl], policies: PolicyStore, resource: str
) -> None:
    control = gate(is_required=True)
    assert not control.may(ANN, JOB_GET, JOB)

    bind(policies, resource, "roles/ml.viewer")

    assert control.may(ANN, JOB_GET, JOB)
    assert not control.may(ANN, JOB_SET_POLICY, JOB)
    assert not control.may(ANN, JOB_GET, "projects/other/jobs/job")


def test_a_role_that_was_taken_away_is_gone_at_once(
    gate: Callable[..., AccessControl], policies: PolicyStore
) -> None:
    control = gate(is_required=True)
    bind(policies, JOB, "roles/ml.viewer")
    control.check(ANN, JOB_GET, JOB)

    policies.replace(JOB, Policy(), seen_version=1)

    with pytest.raises(AccessDenied):
        control.check(ANN, JOB_GET, JOB)


def test_a_refusal_names_the_permission_the_resource_and_the_caller(
    gate: Callable[..., AccessControl],
) -> None:
    control = gate(is_required=True)

    with pytest.raises(AccessDenied) as caught:
        control.check(ANN, JOB_GET, JOB)
    with pytest.raises(AccessDenied, match=r"for an anonymous caller$"):
        control.check(Caller(), JOB_GET, JOB)

    assert (caught.value.code, caught.value.status) == (403, "PERMISSION_DENIED")
    assert str(caught.value) == (
        f"Permission {JOB_GET!r} denied on resource {JOB!r} (or it may not exist) for {ANN.principal}"
    )
