"""Who has the key's folder gets a token for one repository."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

from training_service.access.registry_tokens import SERVICE
from training_service.access.signing_key import SigningKey
from training_service.cli.parser import main


def test_it_prints_a_token_of_the_services_key_for_that_repository(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = SigningKey.load_or_make(tmp_path)

    assert main(["registry-token", "demo/agent", "--key-dir", str(tmp_path)]) == 0

    token = capsys.readouterr().out.strip()
    claims = jwt.decode(token, key.private.public_key(), algorithms=["ES256"], audience=SERVICE)
    assert claims["access"] == [{"type": "repository", "name": "demo/agent", "actions": ["pull", "push"]}]
    assert claims["exp"] - claims["iat"] == 3600
