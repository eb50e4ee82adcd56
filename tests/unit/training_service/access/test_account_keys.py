"""What service accounts sign with their keys, and what of it is believed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from training_service.access.account_keys import (
    GRANT_AUDIENCE,
    AccountKey,
    AccountKeys,
    InvalidAccountKey,
    InvalidAccountToken,
    read_public_key,
)
from training_service.access.decision import Caller

EMAIL = "ci@demo-project.iam.gserviceaccount.com"
CI = Caller(principal=f"serviceAccount:{EMAIL}", is_listed=True)
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
Sign = Callable[..., str]


@pytest.fixture(scope="module")
def private() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def stranger() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture(scope="module")
def keys(private: rsa.RSAPrivateKey, stranger: rsa.RSAPrivateKey) -> AccountKeys:
    """Two keys of one account, of which the test signs with the second, and one of another."""
    older = rsa.generate_private_key(65537, 2048).public_key()
    other = Caller(principal="serviceAccount:other@demo-project.iam.gserviceaccount.com")
    return AccountKeys(
        [
            AccountKey(CI, older),
            AccountKey(CI, private.public_key()),
            AccountKey(other, stranger.public_key()),
        ]
    )


@pytest.fixture(scope="module")
def sign(private: rsa.RSAPrivateKey) -> Sign:
    """Return a function that signs as google-auth does; a change to ``None`` leaves a claim out."""

    def sign(key: Any = private, algorithm: str = "RS256", **changes: Any) -> str:
        now = int(time.time())
        claims = {"iss": EMAIL, "sub": EMAIL, "iat": now, "exp": now + 3600, "scope": SCOPE} | changes
        return jwt.encode(
            {name: value for name, value in claims.items() if value is not None}, key, algorithm
        )

    return sign


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": "https://aiplatform.googleapis.com/", "scope": None},
        {"aud": "https://europe-west4-aiplatform.googleapis.com/", "scope": None},
        {"aud": "https://ml.googleapis.com/", "scope": None},
        {"scope": f"https://www.googleapis.com/auth/devstorage.read_only {SCOPE}"},
    ],
)
def test_tokens_as_googles_libraries_sign_them_say_who_their_bearer_is(
    keys: AccountKeys, sign: Sign, changes: dict[str, Any]
) -> None:
    assert keys.caller_of_token(sign(**changes)) == CI


def test_grants_as_googles_libraries_sign_them_say_who_asks(keys: AccountKeys, sign: Sign) -> None:
    assert keys.caller_of_grant(sign(aud=GRANT_AUDIENCE)) == CI
    assert keys.caller_of_grant(sign(aud=GRANT_AUDIENCE, sub=None)) == CI


def now(seconds: int) -> int:
    return int(time.time()) + seconds


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": now(-60), "iat": now(-3600)}, "has expired"),
        ({"exp": now(86_400)}, "must expire within"),
        ({"iat": now(86_400), "exp": now(90_000)}, "none that this service knows"),
        ({"exp": None}, "none that this service knows"),
        ({"iat": None}, "none that this service knows"),
        ({"iss": None}, "none that this service knows"),
        ({"iss": "nobody@demo-project.iam.gserviceaccount.com"}, "none that this service knows"),
        # Of the other account's name, and of its rights.
        ({"iss": "other@demo-project.iam.gserviceaccount.com"}, "none that this service knows"),
        ({"sub": "other@demo-project.iam.gserviceaccount.com"}, "must be the same account"),
        ({"scope": None}, "must have the scope"),
        ({"scope": "https://www.googleapis.com/auth/devstorage.read_only"}, "must have the scope"),
        ({"aud": "https://example.com/"}, "for somebody else"),
        ({"aud": "https://aiplatform.googleapis.com.example.com/"}, "for somebody else"),
        ({"aud": ["https://aiplatform.googleapis.com/", "https://example.com/"]}, "for somebody else"),
        ({"aud": GRANT_AUDIENCE}, "for somebody else"),
    ],
)
def test_other_tokens_are_believed_nothing(
    keys: AccountKeys, sign: Sign, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidAccountToken, match=reason):
        keys.caller_of_token(sign(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aud": "https://aiplatform.googleapis.com/"}, "audience must be"),
        ({}, "audience must be"),
        ({"aud": GRANT_AUDIENCE, "sub": "ann@example.com"}, "for itself only"),
        ({"aud": GRANT_AUDIENCE, "scope": ""}, "must have the scope"),
    ],
)
def test_other_grants_are_given_nothing(
    keys: AccountKeys, sign: Sign, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidAccountToken, match=reason):
        keys.caller_of_grant(sign(**changes))


def test_what_was_not_signed_with_a_key_of_the_account_is_believed_nothing(
    keys: AccountKeys, sign: Sign, stranger: rsa.RSAPrivateKey
) -> None:
    signed = sign()
    for token in (
        sign(key=stranger),
        sign(key=None, algorithm="none"),
        sign(key="x" * 40, algorithm="HS256"),
        sign(key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256"),
        signed[:-8] + "AAAAAAAA",
        signed.rpartition(".")[0],
        "a.b.c",
        "",
    ):
        with pytest.raises(InvalidAccountToken, match="none that this service knows"):
            keys.caller_of_token(token)


def test_an_account_without_a_key_has_no_caller(keys: AccountKeys) -> None:
    assert keys.caller_of_account(CI.principal) == CI
    assert keys.caller_of_account(f"user:{EMAIL}") is None
    assert keys.caller_of_account("serviceAccount:nobody@demo-project.iam.gserviceaccount.com") is None
    assert not AccountKeys()


def pem_of(key: Any) -> str:
    return str(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


def test_a_public_key_is_read_from_its_text(private: rsa.RSAPrivateKey) -> None:
    assert read_public_key(pem_of(private)) == private.public_key()


@pytest.mark.parametrize(
    ("pem", "rule"),
    [
        (lambda: "", "must be the PEM text"),
        (lambda: "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "must be the PEM text"),
        (lambda: pem_of(ec.generate_private_key(ec.SECP256R1())), "at least 2048 bits"),
        (lambda: pem_of(rsa.generate_private_key(65537, 1024)), "at least 2048 bits"),  # noqa: S505 - too short
    ],
)
def test_other_texts_are_no_public_key(pem: Callable[[], str], rule: str) -> None:
    with pytest.raises(InvalidAccountKey, match=rule):
        read_public_key(pem())
