"""The key file of a service account."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training_service.access.account_keys import read_public_key
from training_service.access.key_file import InvalidKeyFile, make_key_file, public_key_of

ACCOUNT = "ci@demo-project.iam.gserviceaccount.com"
URI = "http://127.0.0.1:8470/token"


def test_a_key_file_is_its_owners_and_what_google_auth_reads(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "key.json"

    make_key_file(path, ACCOUNT, URI)

    content = json.loads(path.read_text())
    assert (content["client_email"], content["project_id"]) == (ACCOUNT, "demo-project")
    assert (content["type"], content["token_uri"]) == ("service_account", URI)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_public_key(public_key_of(path)).key_size == 2048


def test_a_key_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    make_key_file(path, ACCOUNT, URI)
    before = path.read_bytes()

    make_key_file(path, ACCOUNT, URI)

    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "account", ["", "ann@example.com", "ci@demo.iam.gserviceaccount.com.example.com", "CI@x.com"]
)
def test_who_is_no_service_account_gets_none(tmp_path: Path, account: str) -> None:
    with pytest.raises(InvalidKeyFile, match="must be NAME@PROJECT"):
        make_key_file(tmp_path / "key.json", account, URI)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"private_key": "secret words"}', '{"private_key": 7}'])
def test_another_file_has_no_key_and_is_not_quoted(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key.json"
    path.write_text(content)

    with pytest.raises(InvalidKeyFile, match="no key file") as caught:
        public_key_of(path)

    assert "secret words" not in str(caught.value)
