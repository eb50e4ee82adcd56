"""What an engine lacks is pulled, once, from where its name says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from container_training.work.images.puller import ensure_image
from tests.support.fakes.docker_api import FakeDocker, Program, run_fake_docker
from training_api.errors import ImageNotFound

NAME = "127.0.0.1:5000/p/i@sha256:" + "a" * 64


@pytest.fixture
def engine() -> Iterator[FakeDocker]:
    with run_fake_docker() as engine:
        yield engine


def ensure(engine: FakeDocker, name: str) -> list[str]:
    """Return what is said on the way."""
    lines: list[str] = []
    client = engine.client()
    try:
        ensure_image(client, name, lambda host: {}, lines.append)
    finally:
        client.close()
    return lines


def test_an_image_that_the_engine_lacks_is_pulled_and_then_there(engine: FakeDocker) -> None:
    engine.registry[NAME] = Program()

    assert ensure(engine, NAME) == [f"pulling {NAME}"]
    assert ensure(engine, NAME) == []


def test_an_image_that_no_registry_has_is_named(engine: FakeDocker) -> None:
    with pytest.raises(ImageNotFound, match="127"):
        ensure(engine, NAME)


@pytest.mark.parametrize("name", ["localhost/i:1", "sha256:" + "b" * 64])
def test_what_is_in_no_registry_is_not_asked_for(engine: FakeDocker, name: str) -> None:
    with pytest.raises(ImageNotFound, match="no registry has it: build it on this engine"):
        ensure(engine, name)
