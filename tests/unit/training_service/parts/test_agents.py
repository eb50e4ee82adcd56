"""What the agents of a swarm are, by the service's settings."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import jwt
import pytest
from structlog.testing import capture_logs

from local_stack.machines.authority import ensure_certificate
from training_service.access.signing_key import SigningKey
from training_service.parts.agents import InvalidAuthority, agent_launch, agents_metadata
from training_service.settings import EngineKind, ServiceSettings

KEY = SigningKey.generate()
OWN = {"agent_image": "10.0.0.5:5000/demo/agent:1", "agent_url": "https://10.0.0.5:8474"}


def launch(**given: Any) -> Any:
    settings = {"engine": EngineKind.SWARM, "database_url": "sqlite://", **given}
    return agent_launch(ServiceSettings.model_validate(settings), KEY)


def test_their_image_in_the_services_own_registry_is_pulled_with_a_token_for_it_alone() -> None:
    token = launch(registry="10.0.0.5:5000", **OWN).pull_token()

    claims = jwt.decode(token, options={"verify_signature": False})
    assert claims["access"] == [{"type": "repository", "name": "demo/agent", "actions": ["pull"]}]
    assert claims["exp"] - claims["iat"] == 3600


@pytest.mark.parametrize(
    ("registry", "image"),
    [("", OWN["agent_image"]), ("10.0.0.5:5001", OWN["agent_image"]), ("10.0.0.5:5000", "service:1")],
)
def test_an_image_from_elsewhere_is_pulled_without_a_login(registry: str, image: str) -> None:
    assert launch(registry=registry, **OWN | {"agent_image": image}).pull_token() == ""


def test_their_authority_is_read_when_the_service_starts(tmp_path: Path) -> None:
    files = ensure_certificate(tmp_path, IPv4Address("10.0.0.5"))

    assert launch(agent_authority=files.authority, **OWN).authority == files.authority.read_text()
    assert launch(**OWN).authority == ""


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_what_is_no_authority_is_refused_by_its_name(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "authority.pem"
    if content is not None:
        path.write_text(content)

    with pytest.raises(InvalidAuthority, match=r"TRAINING_AGENT_AUTHORITY must be .*authority\.pem"):
        launch(agent_authority=path, **OWN)


def test_containers_are_told_of_the_metadata_where_agents_have_the_engines_socket() -> None:
    told = agents_metadata(launch(agent_metadata_port=9000, **OWN))

    assert set(told.values()) == {"host.docker.internal:9000"}
    assert agents_metadata(None) == {}


@pytest.mark.parametrize(
    ("unset", "reason"),
    [({"agent_docker_socket": ""}, "DOCKER_SOCKET is empty"), ({"agent_metadata_port": 0}, "PORT is 0")],
)
def test_a_service_says_why_jobs_have_no_metadata(unset: dict[str, Any], reason: str) -> None:
    with capture_logs() as lines:
        assert agents_metadata(launch(**unset, **OWN)) == {}
        launch(**OWN)

    (line,) = lines
    assert line["event"] == "jobs have no metadata endpoint"
    assert reason in line["reason"]
