"""What the service's engine makes of the answers of a played Docker Engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from container_engines.docker import engine as module
from container_engines.docker.engine import DockerEngine
from tests.support.fakes.docker_api import FakeDocker, run_fake_docker
from tests.support.speed import scaled
from training_api.errors import EngineUnavailable


@pytest.fixture
def docker() -> Iterator[FakeDocker]:
    with run_fake_docker() as docker:
        yield docker


@pytest.fixture
def engine(docker: FakeDocker) -> Iterator[DockerEngine]:
    with closing(DockerEngine("service", docker.url)) as engine:
        yield engine


def test_a_container_whose_use_cannot_be_had_is_not_waited_for_long(
    docker: FakeDocker, engine: DockerEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_STATS_SECONDS", 0.1)
    docker.hanging_ends.add("/stats")
    began = time.monotonic()

    with pytest.raises(EngineUnavailable):
        engine.read_usage("0" * 64)

    assert time.monotonic() - began < scaled(30)


def test_the_use_of_a_container_that_is_gone_is_unknown(engine: DockerEngine) -> None:
    assert engine.read_usage("0" * 64) is None
