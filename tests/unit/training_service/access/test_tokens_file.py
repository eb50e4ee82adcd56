"""The tokens file: whose tokens there are, and why a file cannot be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from training_service.access.account_keys import read_public_key
from training_service.access.decision import Caller
from training_service.access.key_file import make_key_file, public_key_of
from training_service.access.tokens_file import InvalidTokensFile, digest_of, read_tokens_file

TOKEN = "a-token-that-is-long-enough"
ANN = "user:ann@example.com"
CI = "serviceAccount:ci@demo.iam.gserviceaccount.com"


def write(path: Path, *entries: dict[str, Any], mode: int = 0o600) -> Path:
    path.write_text(json.dumps({"principals": entries}))
    path.chmod(mode)
    return path


def test_tokens_and_their_hashes_stand_for_principals(tmp_path: Path) -> None:
    path = write(
        tmp_path / "tokens",
        {"principal": ANN, "token": TOKEN, "admin": True},
        {
            "principal": "serviceAccount:ci@demo.test",
            "sha256": digest_of("other"),
            "owns": ["demo"],
            "roles": {"other": ["roles/ml.viewer"]},
        },
    )

    assert read_tokens_file(path).by_digest == {
        digest_of(TOKEN): Caller(principal=ANN, is_admin=True, is_listed=True),
        digest_of("other"): Caller(
            principal="serviceAccount:ci@demo.test",
            is_listed=True,
            roles=frozenset({("demo", "roles/owner"), ("other", "roles/ml.viewer")}),
        ),
    }


def test_a_service_account_may_have_keys_beside_its_token(tmp_path: Path) -> None:
    public = []
    for name in ("first", "second"):
        make_key_file(tmp_path / name, CI.partition(":")[2], "http://127.0.0.1:8470/token")
        public.append(public_key_of(tmp_path / name))
    path = write(
        tmp_path / "tokens",
        {"principal": CI, "token": TOKEN, "public_key": public[0], "admin": True},
        {"principal": CI, "public_key": public[1], "admin": True},
    )

    found = read_tokens_file(path)

    assert set(found.by_digest) == {digest_of(TOKEN)}
    assert found.has_admin
    assert [(key.caller.is_admin, key.public) for key in found.keys] == [
        (True, read_public_key(public[0])),
        (True, read_public_key(public[1])),
    ]


def test_keys_of_one_account_with_different_rights_are_refused(tmp_path: Path) -> None:
    entries = []
    for name, rights in (("first", {"admin": True}), ("second", {})):
        make_key_file(tmp_path / name, CI.partition(":")[2], "http://127.0.0.1:8470/token")
        entries.append({"principal": CI, "public_key": public_key_of(tmp_path / name), **rights})

    with pytest.raises(InvalidTokensFile, match=f"gives the keys of '{CI}' different rights"):
        read_tokens_file(write(tmp_path / "tokens", *entries))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"principal": ANN}, "must have token, sha256 or public_key"),
        ({"principal": ANN, "token": TOKEN, "sha256": "0" * 64}, "either token or sha256, not both"),
        ({"principal": ANN, "token": TOKEN, "public_key": "x"}, "is for a serviceAccount"),
        ({"principal": CI, "token": TOKEN, "public_key": "short-token"}, "must be the PEM text"),
        ({"principal": ANN, "token": "short-token"}, "at least 16 characters"),
        ({"principal": ANN, "sha256": "0"}, "should match pattern"),
        ({"principal": ANN, "sha256": "0" * 65}, "should match pattern"),
        ({"principal": ANN, "sha256": "0" * 64 + "\n"}, "should match pattern"),
        ({"principal": "ann", "token": TOKEN}, "principals.0.principal: String should match"),
        ({"principal": "allUsers", "token": TOKEN}, "principals.0.principal"),
        (
            {"principal": ANN, "token": TOKEN, "roles": {"demo": ["roles/invented"]}},
            r"got \['roles/invented'\]",
        ),
        ({"principal": ANN, "token": TOKEN, "adminn": True}, "principals.0.adminn: Extra inputs"),
    ],
)
def test_a_broken_entry_is_named_without_its_token(
    tmp_path: Path, entry: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidTokensFile, match=reason) as caught:
        read_tokens_file(write(tmp_path / "tokens", entry))

    assert TOKEN not in str(caught.value)
    assert "short-token" not in str(caught.value)
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
