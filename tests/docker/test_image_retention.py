"""Which images of a real engine go: none of a container, and none that others brought."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import docker
import docker.errors
import pytest

from container_engines.docker.engine import DockerEngine
from tests.support.bed.own_engine import run_own_engine
from tests.support.fakes.world import World
from training_api.job.image_ref import parse_image_ref
from training_service.store.database import open_database
from training_service.store.pull_store import PullStore
from training_service.upkeep.images import unused_images

pytestmark = [pytest.mark.docker, pytest.mark.needs_root]

USED, OLD, NEW, OTHERS = (f"registry.test/p/{name}:1" for name in ("used", "old", "new", "others"))


@pytest.fixture
def url() -> Iterator[str]:
    """An engine of the test's own: what goes from the machine's would be missed."""
    with run_own_engine() as url:
        yield url


@pytest.fixture
def client(url: str) -> Iterator[docker.APIClient]:
    with closing(docker.APIClient(base_url=url)) as client:
        yield client


def make_image(client: docker.APIClient, name: str) -> None:
    """Make an image of one file, which has the image's name in it."""
    content = name.encode() * 1000
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("file")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    repository, _, tag = name.rpartition(":")
    client.import_image_from_data(archive.getvalue(), repository=repository, tag=tag)


def names(client: docker.APIClient) -> set[str]:
    return {tag for image in client.images() for tag in image["RepoTags"] or ()}


def test_the_least_recently_used_go_and_those_of_containers_and_of_others_stay(
    url: str, client: docker.APIClient, tmp_path: Path
) -> None:
    pulls = PullStore(World(open_database(f"sqlite:///{tmp_path / 'jobs.db'}")).database)
    for hours, name in enumerate((USED, OLD, NEW)):
        make_image(client, name)
        pulls.record_pull(name, datetime.now(UTC) + timedelta(hours=hours))
    make_image(client, OTHERS)
    # The same image under another name: it is not this service's to remove.
    client.tag(OLD, "registry.test/p/kept-name", tag="1")
    container = client.create_container(USED, command=["/file"])
    with closing(DockerEngine("service", url)) as engine:
        found = engine.find_image(parse_image_ref(NEW))
        assert found
        assert found.size_bytes
        task = unused_images(engine, pulls, total_bytes=1)

        removed = list(task())
        with_container = names(client)
        client.remove_container(container["Id"])
        removed_later = list(task())

        assert removed == [("images", 1), ("images", 1)]
        assert with_container == {USED, OTHERS, "registry.test/p/kept-name:1"}
        assert removed_later == [("images", 1)]
        assert names(client) == {OTHERS, "registry.test/p/kept-name:1"}
        assert pulls.by_use() == []
        assert engine.find_image(parse_image_ref(NEW)) is None
        assert engine.remove_image(parse_image_ref(NEW))
