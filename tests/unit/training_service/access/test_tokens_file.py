"""The tokens file, the signing key, and who a token stands for."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509

from training_service.access.decision import Caller
from training_service.access.identity import AUDIENCE, ISSUER, Authenticator, IdentityTokens, Unauthenticated
from training_service.access.signing_key import CERTIFICATE_FILE, KEY_FILE, InvalidSigningKey, SigningKey
from training_service.access.tokens_file import InvalidTokensFile, digest_of, read_tokens_file

TOKEN = "a-token-that-is-long-enough"
ANN = "user:ann@example.com"


def write(path: Path, *entries: dict[str, Any], mode: int = 0o600) -> Path:
    path.write_text(json.dumps({"principals": entries}))
    path.chmod(mode)
    return path


def test_tokens_and_their_hashes_stand_for_principals(tmp_path: Path) -> None:
    path = write(
        tmp_path / "tokens",
        {"principal": ANN, "token": TOKEN, "admin": True},
        {"principal": "serviceAccount:ci@demo.test", "sha256": digest_of("other"), "owns": ["demo"]},
    )

    assert read_tokens_file(path) == {
        digest_of(TOKEN): Caller(principal=ANN, is_admin=True),
        digest_of("other"): Caller(principal="serviceAccount:ci@demo.test", owns=frozenset({"demo"})),
    }


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"principal": ANN}, "either token or sha256"),
        ({"principal": ANN, "token": TOKEN, "sha256": "0" * 64}, "either token or sha256"),
        ({"principal": ANN, "token": "secret"}, "at least 16 characters"),
        ({"principal": ANN, "sha256": "0"}, "should match pattern"),
        ({"principal": "ann", "token": TOKEN}, "principals.0.principal: String should match"),
        ({"principal": "allUsers", "token": TOKEN}, "principals.0.principal"),
        ({"principal": ANN, "token": TOKEN, "adminn": True}, "principals.0.adminn: Extra inputs"),
    ],
)
def test_a_broken_entry_is_named_without_its_token(
    tmp_path: Path, entry: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidTokensFile, match=reason) as caught:
        read_tokens_file(write(tmp_path / "tokens", entry))

    assert TOKEN not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(InvalidTokensFile, match=rf"mode 0600\), got {mode:04o}"):
        read_tokens_file(write(tmp_path / "tokens", {"principal": ANN, "token": TOKEN}, mode=mode))


def test_a_missing_file_one_that_is_no_yaml_and_a_token_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTokensFile, match="cannot be read: No such file"):
        read_tokens_file(tmp_path / "absent")
    path = write(tmp_path / "tokens")
    path.write_text(f"principals: [{TOKEN}")
    with pytest.raises(InvalidTokensFile, match="is not YAML or JSON") as caught:
        read_tokens_file(path)
    assert TOKEN not in str(caught.value)
    entry = {"principal": ANN, "token": TOKEN}
    with pytest.raises(InvalidTokensFile, match=f"has the token of '{ANN}' twice"):
        read_tokens_file(write(tmp_path / "tokens", entry, entry))


def test_the_key_is_made_once_for_its_owner_with_a_certificate_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    key = SigningKey.load_or_make(folder)
    again = SigningKey.load_or_make(folder)

    assert again.id == key.id
    assert stat.S_IMODE((folder / KEY_FILE).stat().st_mode) == 0o600
    certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE_FILE).read_bytes())
    assert certificate.public_key() == key.private.public_key()
    assert sorted(path.name for path in folder.iterdir()) == [CERTIFICATE_FILE, KEY_FILE]


def test_a_certificate_of_another_key_is_replaced(tmp_path: Path) -> None:
    (tmp_path / CERTIFICATE_FILE).write_bytes(SigningKey.generate().certificate())

    key = SigningKey.load_or_make(tmp_path)

    certificate = x509.load_pem_x509_certificate((tmp_path / CERTIFICATE_FILE).read_bytes())
    assert certificate.public_key() == key.private.public_key()


def test_a_key_that_others_may_read_and_a_file_that_is_no_key_are_refused(tmp_path: Path) -> None:
    SigningKey.load_or_make(tmp_path)
    (tmp_path / KEY_FILE).chmod(0o644)
    with pytest.raises(InvalidSigningKey, match="must be its owner's alone"):
        SigningKey.load_or_make(tmp_path)
    (tmp_path / KEY_FILE).write_text("nonsense")
    (tmp_path / KEY_FILE).chmod(0o600)
    with pytest.raises(InvalidSigningKey, match="holds no private key"):
        SigningKey.load_or_make(tmp_path)


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
