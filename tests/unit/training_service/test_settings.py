"""Settings that depend on each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from container_engines.egress import EgressMode, Endpoint
from training_service.settings import ServiceSettings


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAINING_EGRESS", "TRAINING_EGRESS_ALLOW", "TRAINING_ENGINE"):
        monkeypatch.delenv(name, raising=False)


def settings(**given: Any) -> ServiceSettings:
    return ServiceSettings(**given)


def test_jobs_reach_what_the_settings_tell_them_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINING_EGRESS", "internet")
    monkeypatch.setenv("TRAINING_EGRESS_ALLOW", '["10.1.0.0/16:443"]')
    found = settings(
        metadata_host="172.17.0.1",
        metadata_port=8471,
        container_env={
            "STORAGE_EMULATOR_HOST": "http://host.docker.internal:9023",
            "MLFLOW_TRACKING_URI": "https://user:secret@mlflow.lan/path",
            "V6": "http://[fd00::1]:80",
            "MODE": "a:1",
            "FLAG": "false",
            "BAD": "http://host:port",
        },
    )

    assert found.reach.mode is EgressMode.INTERNET
    assert found.reach.endpoints == (
        Endpoint("172.17.0.1", 8471),
        Endpoint("host.docker.internal", 9023),
        Endpoint("mlflow.lan", 443),
        Endpoint("fd00::1", 80),
        Endpoint("10.1.0.0/16", 443),
    )


def test_open_is_the_default_and_there_is_no_endpoint_of_nothing() -> None:
    assert (settings().reach.mode, settings().reach.endpoints) == (EgressMode.OPEN, ())


AGENTS = {"engine": "swarm", "agent_image": "image", "agent_url": "http://10.0.0.1:8470"}


@pytest.mark.parametrize("mode", ["internet", "none"])
@pytest.mark.parametrize("given", [{"engine": "swarm"}, {**AGENTS, "agent_docker_socket": ""}])
def test_a_swarm_is_closed_by_agents_with_the_engines_socket(mode: str, given: dict[str, Any]) -> None:
    assert settings(**given).reach.mode is EgressMode.OPEN
    with pytest.raises(ValidationError, match=f"without agents that have the engine's socket, got {mode}"):
        settings(**given, egress=mode)

    reach = settings(**AGENTS, egress=mode, metadata_host="172.17.0.1").reach

    # Each machine's agent has the endpoint there, and not the service.
    assert reach.endpoints == (Endpoint("host.docker.internal", 8475),)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"agent_image": "image"}, "must be set together, got 'image' and ''"),
        ({"agent_url": "http://10.0.0.1:8470"}, "must be set together, got '' and 'http://10.0.0.1:8470'"),
        ({"agent_image": "image", "agent_url": "10.0.0.1"}, "must be http://HOST:PORT .* got '10.0.0.1'"),
        (
            {"agent_image": "image", "agent_url": "http://10.0.0.1:8470", "agent_authority": "a.pem"},
            "TRAINING_AGENT_AUTHORITY needs a TRAINING_AGENT_URL with https, got 'http://10.0.0.1:8470'",
        ),
        ({"agent_folder": "here"}, "agent_folder"),
        ({"agent_docker_socket": "docker.sock"}, "agent_docker_socket"),
    ],
)
def test_agents_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(engine="swarm", **given)


def test_agents_ask_under_the_name_of_their_address() -> None:
    given = {"agent_image": "image", "agent_url": "https://Service.test:8470"}

    assert settings(engine="swarm", **given).agent_host == "service.test"
    assert settings().agent_host == ""
    assert settings(agent_docker_socket="").agent_docker_socket == ""


@pytest.mark.parametrize("given", [{"egress": "closed"}, {"egress_allow": ["host"]}])
def test_a_wrong_value_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        settings(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"host": "10.0.0.1"},
            "gRPC must have TRAINING_GRPC_CERTIFICATE and TRAINING_GRPC_KEY on '10.0.0.1'",
        ),
        ({"grpc_certificate": "a.pem"}, "must be set together, got 'a.pem' and ''"),
        ({"grpc_key": "k.pem"}, "must be set together, got '' and 'k.pem'"),
        ({"port": 8472}, "TRAINING_GRPC_PORT and TRAINING_PORT must differ, got 8472"),
    ],
)
def test_grpc_that_cannot_be_or_would_show_tokens_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(grpc_port=8472, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"host": "127.0.0.1", "grpc_port": 8472},
        {"host": "::1", "grpc_port": 8472},
        {"host": "10.0.0.1", "grpc_port": 0},
        {"host": "10.0.0.1", "grpc_port": 8472, "grpc_plaintext": True},
        {"host": "10.0.0.1", "grpc_port": 8472, "grpc_certificate": "a.pem", "grpc_key": "k.pem"},
    ],
)
def test_grpc_in_plaintext_is_for_loopback_or_asked_for(given: dict[str, Any]) -> None:
    assert settings(**given).grpc_port == given["grpc_port"]


def test_the_certificate_is_beside_the_database_unless_a_setting_says_where(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'jobs.db'}"

    assert settings(database_url=database).certificates_folder == tmp_path / "tls"
    assert (
        settings(database_url=database, certificates_dir=tmp_path / "a").certificates_folder == tmp_path / "a"
    )
