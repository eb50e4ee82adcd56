"""
Who a bearer token stands for.

It is somebody of the tokens file, somebody whom the service has signed for, or nobody.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest

from training_service.access.decision import Caller
from training_service.access.identity import AUDIENCE, ISSUER, Authenticator, IdentityTokens, Unauthenticated
from training_service.access.signing_key import SigningKey
from training_service.access.tokens_file import digest_of

TOKEN = "a-token-that-is-long-enough"
ANN = "user:ann@example.com"


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate()


def authenticator(key: SigningKey) -> Authenticator:
    return Authenticator({digest_of(TOKEN): Caller(principal=ANN)}, IdentityTokens(key))


def test_a_token_of_the_file_and_one_of_the_service_say_who_their_bearer_is(key: SigningKey) -> None:
    issued = IdentityTokens(key).issue("serviceAccount:agent@example.com")

    assert authenticator(key).bearer(f"Bearer {TOKEN}") == Caller(principal=ANN)
    assert authenticator(key).bearer(f"bearer {issued}") == Caller(
        principal="serviceAccount:agent@example.com"
    )
    assert authenticator(key).bearer(None) is None


def forged(key: SigningKey, **changes: Any) -> str:
    now = datetime.now(UTC)
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": ANN, "iat": now, "exp": now + timedelta(hours=1)}
    return jwt.encode(
        {name: value for name, value in (claims | changes).items() if value}, key.private, "ES256"
    )


def unsigned() -> str:
    now = datetime.now(UTC)
    return jwt.encode(
        {"iss": ISSUER, "aud": AUDIENCE, "sub": ANN, "iat": now, "exp": now + timedelta(hours=1)},
        None,
        "none",
    )


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (lambda _: forged(SigningKey.generate()), "none that this service knows"),
        (lambda key: forged(key, exp=datetime.now(UTC) - timedelta(seconds=1)), "has expired"),
        (lambda key: forged(key, aud="local-registry"), "for somebody else"),
        (lambda key: forged(key, iss="accounts.google.com"), "none that this service knows"),
        (lambda key: forged(key, exp=None), "none that this service knows"),
        (lambda _: unsigned(), "none that this service knows"),
        (lambda key: forged(key)[:-4] + "AAAA", "none that this service knows"),
        (lambda _: TOKEN + "x", "none that this service knows"),
        (lambda _: "", "none that this service knows"),
        (lambda _: "é" * 20, "none that this service knows"),
        (lambda _: "x" * 10_000, "none that this service knows"),
    ],
)
def test_a_token_that_stands_for_nobody_is_refused_and_not_repeated(
    key: SigningKey, token: Any, reason: str
) -> None:
    sent = token(key)

    with pytest.raises(Unauthenticated, match=reason) as caught:
        authenticator(key).bearer(f"Bearer {sent}")

    assert caught.value.code == 401
    assert not sent or sent not in str(caught.value)


def test_an_expired_identity_token_is_refused(key: SigningKey) -> None:
    past = IdentityTokens(key, clock=lambda: datetime.now(UTC) - timedelta(hours=2))

    with pytest.raises(Unauthenticated, match="has expired"):
        authenticator(key).bearer(f"Bearer {past.issue(ANN)}")


def test_another_scheme_than_bearer_is_refused(key: SigningKey) -> None:
    with pytest.raises(Unauthenticated, match="must be 'Bearer TOKEN'"):
        authenticator(key).bearer("Basic YTpi")
