"""
The bytes: one file for each generation, written aside and renamed.

A file below ``contents/`` never changes. One below ``uploads/`` grows.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import google_crc32c

from object_store.data.records import Content
from object_store.errors import Invalid, NoRoom

CHUNK_BYTES = 1 << 20
#: How many bytes may be written between two looks at the disk's free space.
_LOOK_BYTES = 64 << 20


class Hashes:
    """CRC32C and MD5 of what was fed."""

    def __init__(self) -> None:
        self._crc32c: Any = google_crc32c.Checksum()  # type: ignore[no-untyped-call]  # the library has no types
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.size = 0

    def feed(self, data: bytes) -> None:
        """Go on with ``data``."""
        self._crc32c.update(data)
        self._md5.update(data)
        self.size += len(data)

    def content(self, key: str) -> Content:
        """Return what the file ``key`` has, if all of it was fed."""
        return Content(
            key=key,
            size=self.size,
            crc32c=base64.b64encode(self._crc32c.digest()).decode(),
            md5=base64.b64encode(self._md5.digest()).decode(),
        )


class Contents:
    """
    The files of a store; safe for threads.

    :param root: the store's folder; ``contents`` and ``uploads`` are made below it.
    :param floor_bytes: nothing is written when the disk has less free than this.
    """

    def __init__(self, root: Path, floor_bytes: int) -> None:
        self._root = root
        self._floor_bytes = floor_bytes
        for folder in ("contents", "uploads"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def free_bytes(self) -> int:
        """Return how many bytes the disk has left."""
        return shutil.disk_usage(self._root).free

    def require_room(self) -> None:
        """
        Return if something may be written.

        :raises NoRoom: less than the floor is free.
        """
        free = self.free_bytes()
        if free < self._floor_bytes:
            raise NoRoom(free, self._floor_bytes)

    def grow(self, key: str, hashes: Hashes | None = None) -> GrowingFile:
        """
        Return the file of the upload ``key``, to be written further; it is made if there is none.

        :param hashes: of what it has already; default: they are computed anew.
        :raises NoRoom: less than the floor is free.
        """
        self.require_room()
        return GrowingFile(self._upload(key), hashes, self.require_room)

    def adopt(self, path: Path, key: str) -> None:
        """
        Give a file that lies elsewhere on the disk a second name, as that of the upload ``key``.

        :raises FileNotFoundError: it is not there.
        """
        os.link(path, self._upload(key))

    def keep(self, upload: str, content: str) -> None:
        """Make the file of an upload the contents ``content``."""
        target = self._place_for(content)
        self._upload(upload).rename(target)
        _flush_folder(target.parent)

    def share(self, content: str, fresh: str) -> None:
        """Give the contents a second name, without a copy of the bytes."""
        target = self._place_for(fresh)
        os.link(self._content(content), target)
        _flush_folder(target.parent)

    def open(self, content: str) -> BinaryIO:
        """
        Open contents to be read; they stay readable when they are removed meanwhile.

        :raises FileNotFoundError: they were removed.
        """
        return self._content(content).open("rb", buffering=0)

    def remove(self, content: str) -> None:
        """Remove contents, if they are there."""
        self._content(content).unlink(missing_ok=True)

    def open_upload(self, key: str) -> BinaryIO:
        """Open the file of an upload to be read."""
        return self._upload(key).open("rb", buffering=0)

    def upload_bytes(self, key: str) -> int:
        """Return how many bytes of an upload are here."""
        try:
            return self._upload(key).stat().st_size
        except FileNotFoundError:
            return 0

    def drop_upload(self, key: str) -> None:
        """Remove the file of an upload, if there is one."""
        self._upload(key).unlink(missing_ok=True)

    def files(self) -> list[tuple[str, str]]:
        """Return the folder, ``contents`` or ``uploads``, and the key of each file."""
        found = [("uploads", path.name) for path in (self._root / "uploads").iterdir()]
        for folder in (self._root / "contents").iterdir():
            found.extend(("contents", path.name) for path in folder.iterdir())
        return found

    def _content(self, key: str) -> Path:
        return self._root / "contents" / key[:2] / key

    def _place_for(self, key: str) -> Path:
        """Return where new contents go; their folder is there, also after a power cut."""
        path = self._content(key)
        with suppress(FileExistsError):
            path.parent.mkdir()
            _flush_folder(path.parent.parent)
        return path

    def _upload(self, key: str) -> Path:
        return self._root / "uploads" / key


class GrowingFile:
    """A file that is written at its end and hashed meanwhile; one thread at a time."""

    def __init__(self, path: Path, hashes: Hashes | None, look: Callable[[], None]) -> None:
        self._look = look
        self._looked_at = 0
        self.name = path.name
        self._file = path.open("ab", buffering=0)
        size = os.fstat(self._file.fileno()).st_size
        self.hashes = hashes if hashes and hashes.size == size else _hashes_of(path)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.hashes.size

    def write(self, data: bytes) -> None:
        """
        Append ``data``.

        :raises NoRoom: the disk's free space fell below the floor.
        """
        if self.size - self._looked_at >= _LOOK_BYTES:
            self._looked_at = self.size
            self._look()
        while data:
            # An unbuffered file may take a part of it.
            taken = self._file.write(data) or 0
            self.hashes.feed(data if taken == len(data) else data[:taken])
            data = data[taken:]

    def copy(self, source: BinaryIO) -> None:
        """Append all that ``source`` has."""
        while chunk := source.read(CHUNK_BYTES):
            self.write(chunk)

    def flush(self) -> None:
        """Return when the bytes survive a power cut."""
        os.fdatasync(self._file.fileno())

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._file.close()


def new_key() -> str:
    """Return a new unguessable name."""
    return secrets.token_hex(16)


def check_hashes(content: Content, wanted: Mapping[str, str]) -> None:
    """
    Return if ``content`` has the hashes that a client computed.

    :param wanted: base64 by ``crc32c`` and ``md5``.
    :raises Invalid: it has not: bytes were lost or changed on the way.
    """
    for name, found in (("crc32c", content.crc32c), ("md5", content.md5)):
        if wanted.get(name, found) != found:
            raise Invalid(
                f"Provided {name} hash {wanted[name][:60]!r} doesn't match calculated {name} hash {found!r}: "
                "the contents were changed on the way; send them again"
            )


def _hashes_of(path: Path) -> Hashes:
    hashes = Hashes()
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            hashes.feed(chunk)
    return hashes


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
