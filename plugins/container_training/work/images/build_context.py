"""
A build context, and the name that its contents give the image.

The context is packed once, without anything that does not change the image: time stamps, owners, the order of
the folder, all mode bits but the executable one. The hash covers exactly the bytes that are sent.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from docker.utils.build import exclude_paths

from container_training.work.images.ignore_file import ignore_patterns
from training_api.errors import BuildContextMissing

TAG_PREFIX = "ctx-"
TAG_DIGITS = 16
#: Every packed file's modification time, 1980-01-02: zip files, and so wheels, cannot hold an earlier one.
PACKED_MTIME = 315619200
_GIT_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildContext:
    """
    The folder an image is built from.

    :param directory: the folder.
    :param dockerfile: path of the Dockerfile, relative to ``directory`` and inside it.
    :param build_args: values of the Dockerfile's ARGs; no value is empty.
    """

    directory: Path
    dockerfile: str
    build_args: Mapping[str, str]

    def dockerfile_text(self) -> str:
        """Return the contents of the Dockerfile."""
        return (self.directory / self.dockerfile).read_text(encoding="utf-8", errors="replace")

    def pack(self, target: BinaryIO, files: dict[str, str] | None = None) -> str:
        """
        Write the context to ``target`` as a tar archive.

        :param files: filled with the SHA-256 of each packed file or link, by its path.
        :return: SHA-256 of the archive, hexadecimal: the same for the same contents.
        :raises BuildContextMissing: a file vanished or cannot be read.
        """
        hashing = _HashingWriter(target)
        # A stream ("w|") is written front to back, so that it can be hashed on the way.
        with tarfile.open(fileobj=cast(BinaryIO, hashing), mode="w|", format=tarfile.PAX_FORMAT) as archive:
            try:
                for name in self._names():
                    digest = _add(archive, self.directory / name, name)
                    if digest is not None and files is not None:
                        files[Path(name).as_posix()] = digest
            except OSError as error:
                raise BuildContextMissing(f"the build context cannot be read: {error}") from error
        return hashing.digest.hexdigest()

    def _names(self) -> list[str]:
        """Return the paths that the ignore file leaves, in a fixed order."""
        patterns = ignore_patterns(self.directory, self.dockerfile)
        return sorted(exclude_paths(str(self.directory), patterns, dockerfile=self.dockerfile))


def open_context(
    directory: str | Path, *, dockerfile: str = "Dockerfile", build_args: Mapping[str, str] | None = None
) -> BuildContext:
    """
    Return the build context at ``directory``.

    :param dockerfile: path relative to ``directory``.
    :param build_args: an empty value is dropped, so that the Dockerfile's default applies.
    :raises BuildContextMissing: no such folder, no such Dockerfile in it, or a Dockerfile outside.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise BuildContextMissing(
            f"context_dir must be a folder, the build context, got {str(directory)!r}; a relative path starts at "
            "the folder of the DAG's file"
        )
    file = folder / dockerfile
    if not file.is_file():
        raise BuildContextMissing(
            f"dockerfile must be a file in the build context {str(directory)!r}, got {dockerfile!r}; write it "
            "there, or name another one"
        )
    if not file.resolve().is_relative_to(folder.resolve()):
        raise BuildContextMissing(
            f"dockerfile must lie inside the build context {str(directory)!r}, got {dockerfile!r}; copy it there"
        )
    given = {name: str(value) for name, value in (build_args or {}).items() if value not in ("", None)}
    return BuildContext(directory=folder, dockerfile=dockerfile, build_args=given)


def context_hash(
    *,
    archive_digest: str,
    dockerfile: str,
    build_args: Mapping[str, str],
    base_image_ids: Mapping[str, str],
    session_ids: Sequence[str] = (),
) -> str:
    """
    Return the SHA-256, hexadecimal, of all that decides the image. Pure.

    :param archive_digest: of the packed context, the Dockerfile included.
    :param dockerfile: the path of the Dockerfile in it.
    :param base_image_ids: image id per image that the Dockerfile starts or copies from.
    :param session_ids: ids of the secrets and SSH agents that the steps may use; never values.
    """
    parts: dict[str, object] = {
        "archive": archive_digest,
        "dockerfile": dockerfile,
        "build_args": dict(build_args),
        "base_images": dict(base_image_ids),
    }
    if session_ids:
        parts["session"] = list(session_ids)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def content_tag(digest: str) -> str:
    """Return the image tag for a context hash: ``ctx-`` and its first 16 digits. Pure."""
    return TAG_PREFIX + digest[:TAG_DIGITS]


def git_revision(directory: Path) -> str | None:
    """
    Return the checked-out commit of ``directory``, with ``-dirty`` if its files have changed.

    :return: ``None`` outside a git checkout, or if git is not installed.
    """
    try:
        revision = _git(directory, "rev-parse", "HEAD")
        changes = _git(directory, "status", "--porcelain", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{revision}-dirty" if changes else revision


def _git(directory: Path, *arguments: str) -> str:
    # Do not write the index of a checkout that others may use, or run a program that its configuration names.
    options = ["--no-optional-locks", "-c", "core.fsmonitor=false", "-C", str(directory)]
    run = subprocess.run(
        ["git", *options, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=_GIT_SECONDS,
    )
    return run.stdout.strip()


def _add(archive: tarfile.TarFile, path: Path, name: str) -> str | None:
    """
    Add one path.

    What is neither file, folder nor symbolic link (a socket, a device) cannot be part of an image.

    :return: SHA-256 of the file, its mode included, or of the link's target; ``None`` for a folder.
    """
    entry = tarfile.TarInfo(Path(name).as_posix())
    entry.mtime = PACKED_MTIME
    if path.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(entry)
        return hashlib.sha256(f"link {entry.linkname}".encode("utf-8", "surrogateescape")).hexdigest()
    if path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
    elif path.is_file():
        with path.open("rb") as contents:
            status = path.stat()
            entry.size = status.st_size
            entry.mode = 0o755 if status.st_mode & 0o100 else 0o644
            reader = _HashingReader(contents, f"{entry.mode:o} ")
            archive.addfile(entry, cast(BinaryIO, reader))
            return reader.digest.hexdigest()
    return None


class _HashingWriter:
    """A file to write to that hashes what passes through."""

    def __init__(self, target: BinaryIO) -> None:
        self.digest = hashlib.sha256()
        self._target = target

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._target.write(data)


class _HashingReader:
    """A file to read from that hashes what passes through, after ``head``."""

    def __init__(self, source: BinaryIO, head: str) -> None:
        self.digest = hashlib.sha256(head.encode())
        self._source = source

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data
