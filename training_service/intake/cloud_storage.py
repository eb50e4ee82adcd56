"""The object store as the service reads it: objects, and which project a bucket is of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

_TIMEOUT_SECONDS = 10.0
#: The address of Cloud Storage itself, which wants credentials; any other is an emulator, which does not.
CLOUD_STORAGE = "https://storage.googleapis.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One object: its name, and its generation, which changes with each write."""

    name: str
    generation: int
    size: int


class Objects(Protocol):
    """What is needed of an object store. All raise ``StorageUnavailable``."""

    def list(self, bucket: str, prefix: str) -> Iterator[StoredFile]:
        """Return the objects whose names begin with ``prefix``; none of a missing bucket."""

    def read(self, bucket: str, file: StoredFile, start: int, size: int) -> bytes | None:
        """Return up to ``size`` bytes from ``start`` on; ``None``: it was rewritten, or is gone."""


class StorageUnavailable(Exception):
    """The object store does not answer, or refuses."""


class CloudStorage:
    """
    Cloud Storage, or an emulator of it; safe for threads.

    :param endpoint: ``CLOUD_STORAGE``, with the machine's own credentials, or an emulator's URL.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._made: Any = None

    def list(self, bucket: str, prefix: str) -> Iterator[StoredFile]:
        """Return the objects whose names begin with ``prefix``; none of a missing bucket."""
        from google.api_core.exceptions import NotFound

        with _named_errors():
            try:
                for blob in self._client().list_blobs(
                    bucket, prefix=prefix, timeout=_TIMEOUT_SECONDS, retry=None
                ):
                    yield StoredFile(name=blob.name, generation=blob.generation or 0, size=blob.size or 0)
            except NotFound:
                return

    def read(self, bucket: str, file: StoredFile, start: int, size: int) -> bytes | None:
        """Return up to ``size`` bytes from ``start`` on; ``None``: it was rewritten, or is gone."""
        from google.api_core.exceptions import NotFound, PreconditionFailed

        with _named_errors():
            # Not the listed blob: it downloads from its mediaLink, which an emulator fills with a name for
            # containers.
            blob = self._client().bucket(bucket).blob(file.name)
            try:
                content: bytes = blob.download_as_bytes(
                    start=start,
                    end=start + size - 1,
                    if_generation_match=file.generation or None,
                    timeout=_TIMEOUT_SECONDS,
                    retry=None,
                    checksum=None,
                )
            except (NotFound, PreconditionFailed):
                return None
            return content

    def generation(self, bucket: str, name: str, wanted: int | None = None) -> int | None:
        """
        Return the generation of an object; ``None``: it is not there, or may not be read.

        :param wanted: an older generation is asked for, too; default: the newest.
        :raises StorageUnavailable: the store does not answer.
        """
        from google.api_core.exceptions import BadRequest, Forbidden

        with _named_errors():
            try:
                blob = (
                    self._client()
                    .bucket(bucket)
                    .get_blob(name, generation=wanted, timeout=_TIMEOUT_SECONDS, retry=None)
                )
            except (BadRequest, Forbidden):
                return None
            return int(blob.generation) if blob else None

    def lists(self, project: str, bucket: str) -> bool:
        """
        Tell whether ``bucket`` is in the store's list of the project's buckets.

        A list that may not be read is empty.

        :raises StorageUnavailable: the store does not answer.
        """
        from google.api_core.exceptions import BadRequest, Forbidden, NotFound

        with _named_errors():
            try:
                found = self._client().list_buckets(
                    project=project, prefix=bucket, timeout=_TIMEOUT_SECONDS, retry=None
                )
                return any(each.name == bucket for each in found)
            except (BadRequest, Forbidden, NotFound):
                return False

    def _client(self) -> Any:
        # Made when first needed: the import costs a second, and most services run no tuning job.
        if self._made is None:
            from google.auth.credentials import AnonymousCredentials
            from google.cloud import storage

            # Else each client also asks for the bucket itself, for attributes of traces, in a thread that
            # asks a store without an answer for two minutes.
            os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
            if self._endpoint == CLOUD_STORAGE:
                self._made = storage.Client()
            else:
                self._made = storage.Client(
                    project="none",
                    credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
                    client_options={"api_endpoint": self._endpoint},
                )
        return self._made


@contextmanager
def _named_errors() -> Iterator[None]:
    """Make ``StorageUnavailable`` of what Google's libraries raise."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    try:
        yield
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        raise StorageUnavailable(str(error)) from error
