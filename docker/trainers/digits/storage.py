"""Files by name, wherever they lie: a local path, or an object at ``gs://BUCKET/NAME``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.cloud.storage import Blob

SCHEME = "gs://"


class StorageError(Exception):
    """An object could not be read or written; the message names it."""


def read(location: str) -> bytes:
    """
    Return the contents of the file or object at ``location``.

    If it names a generation of an object, the contents of that one.

    :raises StorageError: it is not there, or may not be read.
    """
    try:
        if location.startswith(SCHEME):
            contents: bytes = _blob(location).download_as_bytes()
            return contents
        return Path(location).read_bytes()
    except _errors(location) as error:
        raise StorageError(f"cannot read {location!r}: {error}") from error


def split_generation(location: str) -> tuple[str, int | None]:
    """Return the location and the generation in ``gs://BUCKET/NAME#GENERATION``. Pure."""
    address, mark, generation = location.rpartition("#")
    if mark and location.startswith(SCHEME) and generation.isdecimal():
        return address, int(generation)
    return location, None


def write(location: str, contents: bytes) -> None:
    """
    Write the file or object at ``location``, and the folders above a file.

    :raises StorageError: no such bucket, or no right to write there.
    """
    try:
        if location.startswith(SCHEME):
            _blob(location).upload_from_string(contents, content_type="application/octet-stream")
            return
        Path(location).parent.mkdir(parents=True, exist_ok=True)
        Path(location).write_bytes(contents)
    except _errors(location) as error:
        raise StorageError(f"cannot write {location!r}: {error}") from error


def join(folder: str, name: str) -> str:
    """Return the location of ``name`` in ``folder``; pure."""
    return f"{folder.rstrip('/')}/{name}" if folder.strip("/") else f"{folder}{name}"


def split_uri(uri: str) -> tuple[str, str]:
    """
    Return the bucket and the object name of ``gs://BUCKET/NAME``; pure.

    :raises StorageError: one of the two is missing.
    """
    bucket, _, name = uri.removeprefix(SCHEME).partition("/")
    if not bucket or not name:
        raise StorageError(f"{uri!r} must be {SCHEME}BUCKET/NAME")
    return bucket, name


def _blob(uri: str) -> Blob:
    # Imported here, as a run on local files needs neither the library nor its import time.
    from google.cloud import storage

    address, generation = split_generation(uri)
    bucket, name = split_uri(address)
    # Honours STORAGE_EMULATOR_HOST, and asks for no credentials then.
    return storage.Client().bucket(bucket).blob(name, generation=generation)


def _errors(location: str) -> tuple[type[Exception], ...]:
    """Return what reading or writing ``location`` may raise."""
    if not location.startswith(SCHEME):
        return (OSError,)
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption

    return (OSError, GoogleAPIError, GoogleAuthError, DataCorruption)
