"""Which engine answers, and what differs."""

from __future__ import annotations

import pytest
from requests.structures import CaseInsensitiveDict

from container_engines.docker.kinds import DOCKER, PODMAN, EngineKind, kind_of


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"Api-Version": "1.41", "Server": "Docker/20.10.24 (linux)"}, DOCKER),
        ({"Api-Version": "1.41", "Libpod-Api-Version": "4.3.1"}, PODMAN),
        ({}, DOCKER),
    ],
)
def test_podman_names_itself_in_every_answer(headers: dict[str, str], kind: EngineKind) -> None:
    assert kind_of(CaseInsensitiveDict(headers)) is kind


def test_a_registrys_token_goes_into_the_field_that_the_engine_reads() -> None:
    assert DOCKER.token_login("t") == {"registrytoken": "t"}
    assert PODMAN.token_login("t") == {"identitytoken": "t"}
    assert DOCKER.token_login("") == PODMAN.token_login("") == {}


def test_podman_keeps_as_much_output_in_its_one_file_as_docker_in_two() -> None:
    docker, podman = DOCKER.log_files(8), PODMAN.log_files(8)

    assert (docker.type, docker.config["max-size"], docker.config["max-file"]) == ("local", "8m", "2")
    assert (podman.type, podman.config) == ("k8s-file", {"max-size": "16m"})


@pytest.mark.parametrize(
    ("info", "is_refused"),
    [
        ({"Rootless": True, "CgroupVersion": "1"}, True),
        ({"Rootless": True, "CgroupVersion": "2"}, False),
        ({"Rootless": False, "CgroupVersion": "1"}, False),
    ],
)
def test_containers_without_limits_are_known_before_they_are_made(
    info: dict[str, object], is_refused: bool
) -> None:
    assert PODMAN.missing_limits is not None
    assert bool(PODMAN.missing_limits(info)) is is_refused
