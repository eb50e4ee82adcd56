"""The developer's credentials: made once, each file for its owner, known to all clients."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path

import pytest

from local_stack.environment import client_environment
from local_stack.parts.airflow import airflow_environment
from local_stack.people.credentials import developer_token, ensure_credentials, registry_auth, registry_login
from local_stack.settings import StackSettings


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return StackSettings(state_dir=tmp_path / "s")


def docker_config(settings: StackSettings) -> dict[str, object]:
    found: dict[str, object] = json.loads((settings.docker_config_dir / "config.json").read_text())
    return found


def test_the_token_is_made_once_and_no_file_is_for_others(settings: StackSettings) -> None:
    ensure_credentials(settings)
    token = developer_token(settings)
    ensure_credentials(settings)

    assert developer_token(settings) == token
    assert len(token) >= 32
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in settings.credentials_dir.rglob("*")}
    assert modes == {
        "developer-token": 0o600,
        "tokens.json": 0o600,
        "docker": 0o700,
        "config.json": 0o600,
    }
    assert stat.S_IMODE(settings.credentials_dir.stat().st_mode) == 0o700


def test_the_service_is_told_the_tokens_hash_and_not_the_token(settings: StackSettings) -> None:
    ensure_credentials(settings)

    text = settings.tokens_file.read_text()
    (principal,) = json.loads(text)["principals"]
    assert developer_token(settings) not in text
    assert principal == {
        "principal": "user:developer@example.com",
        "sha256": hashlib.sha256(developer_token(settings).encode()).hexdigest(),
        "admin": False,
        "owns": ["demo-project"],
    }


def test_other_logins_of_the_docker_configuration_stay(settings: StackSettings) -> None:
    ensure_credentials(settings)
    path = settings.docker_config_dir / "config.json"
    other = {"auths": {"registry.example": {"auth": "eA=="}}, "credsStore": "none"}
    path.write_text(json.dumps(other))

    ensure_credentials(settings)

    found = docker_config(settings)
    assert found["credsStore"] == "none"
    assert set(found["auths"]) == {"registry.example", settings.registry}  # type: ignore[call-overload]


def test_clients_are_given_the_login_and_a_token_where_the_service_wants_one(tmp_path: Path) -> None:
    for require_auth in (False, True):
        settings = StackSettings(state_dir=tmp_path / str(require_auth), require_auth=require_auth)
        ensure_credentials(settings)
        environment = client_environment(settings, base_image="b:1")
        airflow = airflow_environment(settings, base_image="b:1", token=developer_token(settings))

        assert environment["DOCKER_CONFIG"] == str(settings.docker_config_dir)
        assert environment["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] == str(settings.developer_token_file)
        assert "CLOUDSDK_AUTH_DISABLE_CREDENTIALS" not in environment
        registry = json.loads(airflow["AIRFLOW_CONN_DOCKER_DEFAULT"])
        assert {"username": registry["login"], "password": registry["password"]} == registry_login(settings)
        training = json.loads(airflow["AIRFLOW_CONN_TRAINING_DEFAULT"])
        assert training["password"] == developer_token(settings)
        assert developer_token(settings) not in json.dumps(environment)


def test_the_registry_trusts_the_services_key_which_is_made_once(settings: StackSettings) -> None:
    auth = registry_auth(settings)
    certificate = Path(auth["token"]["rootcertbundle"])
    made = certificate.read_bytes()

    assert auth["token"]["realm"] == "http://127.0.0.1:8470/registry/token"
    assert certificate.is_relative_to(settings.key_dir)
    certificate.unlink()
    assert registry_auth(settings) == auth
    assert certificate.read_bytes() != made  # another certificate, of the same key
    moved = settings.model_copy(update={"training_port": 8471})
    assert registry_auth(moved)["token"]["realm"] == "http://127.0.0.1:8471/registry/token"
