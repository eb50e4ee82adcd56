"""What a token for the registry allows: what the repository's policy says, and no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest

from training_api.dialects.ml_v1.dialect import AGENT as ML_AGENT
from training_api.iam.wire import Binding, Policy
from training_service.access.control import AccessControl
from training_service.access.decision import Caller, agent_principal
from training_service.access.identity import Authenticator, IdentityTokens, Unauthenticated
from training_service.access.registry_tokens import ISSUER, SERVICE, RegistryTokens, own_token
from training_service.access.signing_key import SigningKey
from training_service.store.database import open_database
from training_service.store.policy_store import PolicyStore

REPOSITORY = "projects/other/locations/local/repositories/digits"
AGENT = Caller(principal=agent_principal(ML_AGENT, "demo"))
PULL = {"type": "repository", "name": "other/digits", "actions": ["pull"]}


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate()


@pytest.fixture
def policies() -> PolicyStore:
    return PolicyStore(open_database("sqlite://"))


@pytest.fixture
def tokens(key: SigningKey, policies: PolicyStore) -> RegistryTokens:
    return RegistryTokens(
        key, AccessControl(policies, Authenticator({}, IdentityTokens(key)), agents=[ML_AGENT])
    )


def grant(policies: PolicyStore, resource: str, role: str, member: str = AGENT.principal) -> None:
    version = policies.get(resource).version
    assert policies.replace(
        resource, Policy(bindings=[Binding(role=role, members=[member])]), seen_version=version
    )


def access(tokens: RegistryTokens, caller: Caller, *scopes: str) -> list[dict[str, Any]]:
    return tokens.issue(caller, scopes).access


def test_without_a_grant_there_is_nothing_and_with_one_what_the_role_has(
    tokens: RegistryTokens, policies: PolicyStore
) -> None:
    scope = "repository:other/digits:pull,push"
    assert access(tokens, AGENT, scope) == []

    grant(policies, REPOSITORY, "roles/artifactregistry.reader")
    assert access(tokens, AGENT, scope) == [PULL]
    grant(policies, REPOSITORY, "roles/artifactregistry.writer")
    assert access(tokens, AGENT, scope) == [{**PULL, "actions": ["pull", "push"]}]
    grant(policies, REPOSITORY, "roles/artifactregistry.repoAdmin")
    assert access(tokens, AGENT, "repository:other/digits:*") == [
        {**PULL, "actions": ["pull", "push", "delete"]}
    ]
    grant(policies, REPOSITORY, "roles/artifactregistry.reader", "user:ann@example.com")
    assert access(tokens, AGENT, scope) == []


@pytest.mark.parametrize("role", ["roles/artifactregistry.reader", "roles/ml.serviceAgent", "roles/viewer"])
def test_a_grant_on_the_project_is_one_on_its_repositories(
    tokens: RegistryTokens, policies: PolicyStore, role: str
) -> None:
    grant(policies, "projects/other", role)

    assert access(tokens, AGENT, "repository:other/digits:pull") == [PULL]


def test_the_projects_own_agent_may_pull_and_not_push(tokens: RegistryTokens) -> None:
    asked = "repository:demo/a/b/c:pull,push"

    assert access(tokens, AGENT, asked) == [{"type": "repository", "name": "demo/a/b/c", "actions": ["pull"]}]


@pytest.mark.parametrize(
    "scope",
    [
        "repository:demo/../other/digits:pull",
        "repository:demo//digits:pull",
        "repository:/demo/digits:pull",
        "repository:demo/digits/:pull",
        "repository:demo/digits%2f..:pull",
        "repository:demo/digits\r\nX-Evil: 1:pull",
        "repository:DEMO/digits:pull",
        "repository:demo:pull",
        "repository::pull",
        "repository:demo/digits",
        "repository:demo/digits:",
        "repository:demo/digits:fly",
        "registry:catalog:*",
        "demo/digits",
        "",
    ],
)
def test_a_name_that_is_no_repositorys_is_granted_to_nobody(tokens: RegistryTokens, scope: str) -> None:
    assert (
        access(tokens, Caller(principal="user:a@b.test", roles=frozenset({("demo", "roles/owner")})), scope)
        == []
    )


def test_of_a_repository_whose_name_begins_alike_nothing_is_granted(
    tokens: RegistryTokens, policies: PolicyStore
) -> None:
    grant(policies, REPOSITORY, "roles/artifactregistry.reader")

    for name in ("other/digits2", "other/digit", "other2/digits", "digits/other"):
        assert access(tokens, AGENT, f"repository:{name}:pull") == []


def test_a_mount_gets_both_repositories_only_with_a_right_on_both(
    tokens: RegistryTokens, policies: PolicyStore
) -> None:
    owner = Caller(principal="user:ann@example.com", roles=frozenset({("demo", "roles/owner")}))
    scopes = ("repository:demo/new:pull,push", "repository:other/digits:pull")

    assert [part["name"] for part in access(tokens, owner, *scopes)] == ["demo/new"]
    grant(policies, REPOSITORY, "roles/artifactregistry.reader", owner.principal)
    assert [part["name"] for part in access(tokens, owner, *scopes)] == ["demo/new", "other/digits"]


def test_everybody_gets_what_all_users_have(tokens: RegistryTokens, policies: PolicyStore) -> None:
    assert access(tokens, Caller(), "repository:other/digits:pull") == []

    grant(policies, REPOSITORY, "roles/artifactregistry.reader", "allUsers")

    assert access(tokens, Caller(), "repository:other/digits:pull") == [PULL]


def test_the_token_is_for_the_registry_alone_and_soon_over(tokens: RegistryTokens, key: SigningKey) -> None:
    token = tokens.issue(AGENT, ["repository:demo/a:pull"])

    claims = jwt.decode(
        token.value, key.private.public_key(), algorithms=["ES256"], audience=SERVICE, issuer=ISSUER
    )
    assert claims["access"] == token.access
    assert claims["exp"] - claims["iat"] == 300
    assert jwt.get_unverified_header(token.value)["kid"] == key.id
    with pytest.raises(jwt.InvalidAudienceError):
        jwt.decode(token.value, key.private.public_key(), algorithms=["ES256"], audience="another-registry")


def test_a_token_is_refreshed_until_its_end_and_never_beyond(key: SigningKey, policies: PolicyStore) -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    control = AccessControl(policies, Authenticator({}, IdentityTokens(key)), agents=[ML_AGENT])
    tokens = RegistryTokens(key, control, clock=lambda: now[0])
    token = tokens.issue(AGENT, [], timedelta(minutes=5))

    now[0] += timedelta(minutes=4)
    again = tokens.refresh(token.value)
    now[0] += timedelta(minutes=1)

    assert (again.value, again.lifetime, again.principal) == (
        token.value,
        timedelta(minutes=1),
        AGENT.principal,
    )
    with pytest.raises(Unauthenticated, match="is over"):
        tokens.refresh(token.value)


def test_a_token_of_another_key_is_not_refreshed(tokens: RegistryTokens, policies: PolicyStore) -> None:
    other = SigningKey.generate()
    control = AccessControl(policies, Authenticator({}, IdentityTokens(other)), agents=[ML_AGENT])
    forged = RegistryTokens(other, control).issue(AGENT, [])

    with pytest.raises(Unauthenticated, match="no token of this registry"):
        tokens.refresh(forged.value)


def test_the_service_itself_uses_one_repository_and_nothing_else(key: SigningKey) -> None:
    token = own_token(key, "other/digits", ["pull"], timedelta(minutes=5))

    claims = jwt.decode(
        token, key.private.public_key(), algorithms=["ES256"], audience=SERVICE, issuer=ISSUER
    )
    assert claims["access"] == [PULL]
    assert claims["exp"] - claims["iat"] == 300
