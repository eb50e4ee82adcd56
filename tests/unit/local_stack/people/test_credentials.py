"""The credentials of developer and Airflow: made once, each file for its owner."""

from __future__ import annotations

import hashlib
import json
import stat
from ipaddress import IPv4Address
from pathlib import Path

import jwt
import pytest

from local_stack.environment import client_environment
from local_stack.parts.airflow import airflow_environment
from local_stack.people.credentials import (
    airflow_token,
    developer_token,
    ensure_credentials,
    google_key,
    registry_auth,
    registry_login,
    stacks_registry_login,
)
from local_stack.settings import StackSettings


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return StackSettings(state_dir=tmp_path / "s")


def docker_config(settings: StackSettings) -> dict[str, object]:
    found: dict[str, object] = json.loads((settings.docker_config_dir / "config.json").read_text())
    return found


def test_the_tokens_are_made_once_and_no_file_is_for_others(settings: StackSettings) -> None:
    ensure_credentials(settings)
    tokens = developer_token(settings), airflow_token(settings)
    ensure_credentials(settings)

    assert (developer_token(settings), airflow_token(settings)) == tokens
    assert len(set(tokens)) == 2
    assert min(map(len, tokens)) >= 32
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in settings.credentials_dir.rglob("*")}
    assert modes == {
        "airflow-token": 0o600,
        "developer-token": 0o600,
        "tokens.json": 0o600,
        "docker": 0o700,
        "config.json": 0o600,
    }
    assert stat.S_IMODE(settings.credentials_dir.stat().st_mode) == 0o700


@pytest.mark.parametrize("require_auth", [False, True])
def test_the_service_is_told_the_tokens_hashes_and_only_the_developer_may_administer(
    tmp_path: Path, *, require_auth: bool
) -> None:
    settings = StackSettings(state_dir=tmp_path / "s", require_auth=require_auth)
    ensure_credentials(settings)

    text = settings.tokens_file.read_text()
    assert developer_token(settings) not in text
    assert airflow_token(settings) not in text
    developer, airflow = json.loads(text)["principals"]
    # Google's libraries have a key where a token is wanted.
    assert airflow.pop("public_key", "").startswith("-----BEGIN PUBLIC KEY-----") == require_auth
    key = json.loads(google_key(settings, "training") or "{}")
    assert key.get("token_uri") == (
        f"http://training:{settings.training_port}/token" if require_auth else None
    )
    assert [developer, airflow] == [
        {
            "principal": "user:developer@example.com",
            "sha256": hashlib.sha256(developer_token(settings).encode()).hexdigest(),
            "admin": require_auth,
            "owns": ["demo-project"],
        },
        {
            "principal": "serviceAccount:airflow@demo-project.iam.gserviceaccount.com",
            "sha256": hashlib.sha256(airflow_token(settings).encode()).hexdigest(),
            "roles": {"demo-project": ["roles/training.airflow", "roles/aiplatform.user"]},
        },
    ]


def test_a_stack_from_before_keeps_its_developer_and_gets_a_principal_for_airflow(
    settings: StackSettings,
) -> None:
    ensure_credentials(settings)
    settings.airflow_token_file.unlink()
    token = developer_token(settings)

    ensure_credentials(settings)

    assert developer_token(settings) == token
    assert hashlib.sha256(airflow_token(settings).encode()).hexdigest() in settings.tokens_file.read_text()


def test_other_logins_of_the_docker_configuration_stay(settings: StackSettings) -> None:
    ensure_credentials(settings)
    path = settings.docker_config_dir / "config.json"
    other = {"auths": {"registry.example": {"auth": "eA=="}}, "credsStore": "none"}
    path.write_text(json.dumps(other))

    ensure_credentials(settings)

    found = docker_config(settings)
    assert found["credsStore"] == "none"
    assert set(found["auths"]) == {"registry.example", settings.registry}  # type: ignore[call-overload]


def test_the_stack_has_a_login_for_one_image_while_the_service_is_down(settings: StackSettings) -> None:
    login = stacks_registry_login(settings, "10.0.0.5:5000/demo-project/agent:1")

    claims = jwt.decode(login["registrytoken"], options={"verify_signature": False})
    assert [(each["name"], each["actions"]) for each in claims["access"]] == [
        ("demo-project/agent", ["pull", "push"])
    ]


def test_people_and_airflow_are_each_given_their_own_token(settings: StackSettings) -> None:
    ensure_credentials(settings)
    own = airflow_token(settings)
    environment = client_environment(settings, base_image="b:1")
    airflow = airflow_environment(settings, base_image="b:1", token=own)

    assert environment["DOCKER_CONFIG"] == str(settings.docker_config_dir)
    assert environment["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] == str(settings.developer_token_file)
    assert "CLOUDSDK_AUTH_DISABLE_CREDENTIALS" not in environment
    assert developer_token(settings) not in json.dumps(environment)
    registry = json.loads(airflow["AIRFLOW_CONN_DOCKER_DEFAULT"])
    assert (registry["login"], registry["password"]) == (registry_login(settings)["username"], own)
    assert json.loads(airflow["AIRFLOW_CONN_TRAINING_DEFAULT"])["password"] == own


@pytest.mark.extended
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
    # Engines of other machines ask there, and those of this one too.
    advertised = settings.model_copy(update={"advertise_address": IPv4Address("10.0.0.5")})
    assert registry_auth(advertised)["token"]["realm"] == "https://10.0.0.5:8474/registry/token"
