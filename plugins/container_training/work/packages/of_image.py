"""Read an image's package databases off a Docker Engine, without running the image."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, cast

from docker.api import APIClient

from container_engines.docker.driver import ContainerLaunch, DockerDriver
from container_engines.docker.errors import engine_errors
from container_training.work.images.engine import OWNER_LABEL, Cancellation, stoppable_answers
from container_training.work.packages.installed import (
    OS_RELEASE,
    Package,
    database_kind,
    is_unread_database,
    os_release,
    packages_of,
)
from training_api.errors import EngineBusy, EngineUnavailable

_CHUNK_BYTES = 2**20
#: Of one database; Debian's largest have a few MB.
MAX_DATABASE_BYTES = 64 * 2**20


@dataclass(slots=True, kw_only=True)
class ImagePackages:
    """
    What is installed in an image.

    :param os_release: fields of its os-release file; empty: it has none.
    :param unread: paths of databases that were not read.
    """

    packages: list[Package] = field(default_factory=list)
    os_release: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


def image_packages(
    api_client: APIClient, image: str, *, owner: str, cancellation: Cancellation | None = None
) -> ImagePackages:
    """
    Return what the package databases of ``image`` list.

    A container is made from the image, exported as a stream, and removed; it is never started. The export is
    the file system as a container would see it: what a later layer removed is not in it.

    :param image: name or id of an image that the engine has.
    :param owner: value of the container's label, by which it is found if it is left over.
    :raises ImageNotFound: the engine has no such image.
    :raises EngineUnavailable: the engine does not answer, or the reading was cancelled.
    """
    cancellation = cancellation or Cancellation()
    found = ImagePackages()
    with (
        _container(api_client, image, owner) as container,
        engine_errors(f"export {image}"),
        stoppable_answers(api_client, cancellation),
    ):
        stream = _Stream(api_client.export(container, chunk_size=_CHUNK_BYTES))
        try:
            with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
                for entry in archive:
                    _read(archive, entry, found)
        except tarfile.TarError as error:
            if not cancellation.is_cancelled:  # which cuts the stream
                raise EngineBusy(f"the engine's export of {image} cannot be read: {error}") from error
        if cancellation.is_cancelled:
            raise EngineUnavailable(f"reading the packages of {image} was cancelled")
    found.packages.sort()
    return found


def _read(archive: tarfile.TarFile, entry: tarfile.TarInfo, found: ImagePackages) -> None:
    path = entry.name.removeprefix("./")
    if is_unread_database(path):
        found.unread.append(path)
        return
    kind = database_kind(path)
    if not entry.isfile() or (kind is None and path not in OS_RELEASE):
        return
    if entry.size > MAX_DATABASE_BYTES:
        found.unread.append(path)
        return
    file = archive.extractfile(entry)
    text = file.read().decode("utf-8", "replace") if file is not None else ""
    if kind is None:
        found.os_release = os_release(text)
    else:
        found.packages.extend(packages_of(kind, text, path))


@contextmanager
def _container(api_client: APIClient, image: str, owner: str) -> Iterator[str]:
    driver = DockerDriver(api_client)
    # Never run; an image without a command of its own would be refused.
    launch = ContainerLaunch(image=image, args=["never-started"], labels={OWNER_LABEL: owner})
    container = driver.create(launch)
    try:
        yield container
    finally:
        driver.remove(container)


class _Stream:
    """A file to read from, over chunks as they come: an image may be larger than the memory."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def read(self, size: int) -> bytes:
        parts, wanted = [], size
        while wanted > 0:
            if not self._left:
                self._left = next(self._chunks, b"")
                if not self._left:
                    break
            part, self._left = self._left[:wanted], self._left[wanted:]
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)
