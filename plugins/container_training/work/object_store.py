"""
Objects in Cloud Storage by ``gs://`` address.

It uses a client of ``google-cloud-storage`` that the caller passes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO
from urllib.parse import quote

from training_api.errors import InvalidArgument, ObjectChanged, ResultsMissing
from training_api.job.packages.pinned_uri import split_pinned
from training_api.job.results import ResultFile

_DELETED_AT_ONCE = 1000
#: An object that is replaced between the look at its size and the read is read again.
_READ_ATTEMPTS = 5


class ObjectStore:
    """
    Reads and writes objects.

    It imports nothing of Google's by itself, since that costs a second.

    :param client: a ``google.cloud.storage.Client``; it retries by itself what may pass.
    :param patience_seconds: how long reads and lists are retried, and at most wait for one answer; default:
        the client's own.
    """

    def __init__(self, client: Any, patience_seconds: float | None = None) -> None:
        self._client = client
        self._patience_seconds = patience_seconds

    def close(self) -> None:
        """Close the client's connections; may be called twice."""
        self._client.close()

    def files(self, folder: str) -> Iterator[ResultFile]:
        """
        Yield the objects below ``folder``, by name; pages are read as they are needed.

        :raises ResultsMissing: the bucket does not exist.
        """
        from google.api_core.exceptions import NotFound

        bucket, prefix = split_uri(folder)
        try:
            for blob in self._client.list_blobs(bucket, prefix=prefix, **self._patience()):
                if not blob.name.endswith("/"):  # a console's folder marker, not a file
                    yield _file(bucket, blob)
        except NotFound as error:
            raise ResultsMissing(f"bucket {bucket!r} of {folder} does not exist") from error

    def list_files(self, folder: str, limit: int) -> tuple[list[ResultFile], bool]:
        """
        Return up to ``limit`` objects below ``folder``, by name, and whether there are more.

        :raises ResultsMissing: the bucket does not exist.
        """
        found = list(islice(self.files(folder), limit + 1))
        return found[:limit], len(found) > limit

    def has_file(self, uri: str) -> bool:
        """
        Return whether there is an object at ``uri``.

        For an address that ends in ``/``, whether there is one below it.

        :raises ResultsMissing: the bucket does not exist.
        """
        if uri.endswith("/"):
            return bool(self.list_files(uri, 1)[0])
        bucket, name = split_uri(uri)
        return self._client.bucket(bucket).get_blob(name) is not None

    def generations(self, uri: str) -> Iterator[tuple[str, int]]:
        """
        Yield name and generation of the object at ``uri`` and of all below ``uri/``.

        Of a whole bucket for ``gs://BUCKET``.

        A generation is the object store's number of a version: it changes with every write of the object,
        also of the same bytes.
        """
        from google.api_core.exceptions import NotFound

        bucket, name = split_uri(uri)
        is_folder = name.endswith("/") or not name
        try:
            for blob in self._client.list_blobs(bucket, prefix=name):
                # "data" names neither "data-2.csv" nor "database/x.csv".
                if is_folder or blob.name == name or blob.name.startswith(f"{name}/"):
                    yield blob.name, int(blob.generation or 0)
        except NotFound:
            return

    def find(self, uri: str) -> ResultFile | None:
        """
        Return the object at ``uri``; ``None`` if there is none.

        ``uri`` may name a generation.
        """
        address, generation = split_pinned(uri)
        bucket, name = split_uri(address)
        wanted = {} if generation is None else {"generation": generation}
        found = self._client.bucket(bucket).get_blob(name, **wanted, **self._patience())
        return None if found is None else _file(bucket, found)

    def read(self, uri: str, max_bytes: int) -> bytes | None:
        """
        Return the bytes at ``uri``, or ``None`` if there is no object.

        ``uri`` may name a generation.

        :raises ResultsMissing: it is larger than ``max_bytes``.
        """
        found = self.read_version(uri, max_bytes)
        return None if found is None else found[0]

    def read_version(self, uri: str, max_bytes: int) -> tuple[bytes, int] | None:
        """
        Return the bytes at ``uri`` and their generation, or ``None`` where there is no object.

        :raises ResultsMissing: it is larger than ``max_bytes``, or was replaced while it was read, time and
            again.
        """
        from google.api_core.exceptions import NotFound

        for _ in range(_READ_ATTEMPTS):
            found = self.find(uri)
            if found is None:
                return None
            if found.size_bytes > max_bytes:
                raise ResultsMissing(f"{uri} must be at most {max_bytes} bytes, got {found.size_bytes}")
            bucket, name = split_uri(found.uri)
            # By its generation, which need not be the live one.
            blob = self._client.bucket(bucket).blob(name, generation=found.generation)
            try:
                return blob.download_as_bytes(**self._patience()), int(found.generation or 0)
            except NotFound:
                continue
        raise ResultsMissing(f"{uri} is replaced faster than it can be read; read it again later")

    def keeps_versions(self, uri: str) -> bool:
        """
        Return whether the bucket of ``uri`` is known to keep what is overwritten or deleted.

        :raises ResultsMissing: the bucket does not exist.
        """
        from google.api_core.exceptions import Forbidden, NotFound

        bucket, _ = split_uri(uri)
        try:
            return bool(self._client.get_bucket(bucket, **self._patience()).versioning_enabled)
        except Forbidden:
            # Who may read objects need not be allowed to see the bucket.
            return False
        except NotFound as error:
            raise ResultsMissing(f"bucket {bucket!r} of {uri} does not exist") from error

    def lists_bucket(self, project: str, bucket: str) -> bool:
        """
        Tell whether the store lists ``bucket`` under ``project``.

        A list that may not be read is empty.
        """
        from google.api_core.exceptions import BadRequest, Forbidden, NotFound

        try:
            found = self._client.list_buckets(prefix=bucket, project=project, **self._patience())
            return any(each.name == bucket for each in found)
        except (BadRequest, Forbidden, NotFound):
            return False

    def _patience(self) -> dict[str, Any]:
        if self._patience_seconds is None:
            return {}
        from google.cloud.storage.retry import DEFAULT_RETRY

        seconds = self._patience_seconds
        return {"retry": DEFAULT_RETRY.with_timeout(seconds), "timeout": seconds}

    def browser_url(self, uri: str) -> str:
        """
        Return the object's address for a browser.

        For Google a page that asks for a login, else the store itself.
        """
        bucket, name = split_uri(uri)
        endpoint = str(self._client.api_endpoint)
        if endpoint.endswith(".googleapis.com"):
            return f"https://storage.cloud.google.com/{bucket}/{quote(name)}"
        return f"{endpoint}/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media"

    def delete_folder(self, folder: str) -> list[ResultFile]:
        """
        Delete what is below ``folder``, at most 1000 objects of it; return what was there.

        :raises ResultsMissing: the bucket does not exist.
        """
        files, _ = self.list_files(f"{folder.rstrip('/')}/", _DELETED_AT_ONCE)
        for file in files:
            bucket, name = split_uri(file.uri)
            self._client.bucket(bucket).blob(name).delete()
        return files

    def write_if_changed(self, uri: str, content: bytes, content_type: str) -> bool:
        """
        Make ``uri`` hold ``content``; return whether it had to be written.

        :raises ResultsMissing: the bucket does not exist.
        """
        import google_crc32c
        from google.api_core.exceptions import NotFound

        checksum = base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode("ascii")
        bucket, name = split_uri(uri)
        present = self._client.bucket(bucket).get_blob(name)
        if present is not None and present.crc32c == checksum and present.size == len(content):
            return False
        try:
            self._client.bucket(bucket).blob(name).upload_from_string(content, content_type=content_type)
        except NotFound as error:
            raise ResultsMissing(f"bucket {bucket!r} of {uri} does not exist") from error
        return True

    def write_if(self, uri: str, content: bytes, content_type: str, *, generation: int) -> int:
        """
        Write ``uri`` if it is still at ``generation``; return its new generation.

        One atomic request.

        :param generation: 0 if there must be no object.
        :raises ObjectChanged: it is at another one; also where an earlier try of this very call wrote and its
            answer was lost.
        :raises ResultsMissing: the bucket does not exist.
        """
        from google.api_core.exceptions import NotFound, PreconditionFailed

        bucket, name = split_uri(uri)
        blob = self._client.bucket(bucket).blob(name)
        try:
            blob.upload_from_string(content, content_type=content_type, if_generation_match=generation)
        except PreconditionFailed as error:
            raise ObjectChanged(
                f"{uri} is not at generation {generation} any more; somebody wrote it"
            ) from error
        except NotFound as error:
            raise ResultsMissing(f"bucket {bucket!r} of {uri} does not exist") from error
        return int(blob.generation)

    def write_new(self, uri: str, file: BinaryIO, content_type: str) -> int:
        """
        Write ``file`` to ``uri``, unless there is an object; return the generation there.

        It is read from its start.

        :raises ResultsMissing: the bucket does not exist.
        :raises ObjectChanged: the object that was there is gone.
        """
        from google.api_core.exceptions import NotFound, PreconditionFailed

        bucket, name = split_uri(uri)
        blob = self._client.bucket(bucket).blob(name)
        try:
            blob.upload_from_file(file, rewind=True, content_type=content_type, if_generation_match=0)
        except PreconditionFailed:
            present = self.find(uri)
            if present is None:
                raise ObjectChanged(f"{uri} was deleted while it was written") from None
            return int(present.generation or 0)
        except NotFound as error:
            raise ResultsMissing(f"bucket {bucket!r} of {uri} does not exist") from error
        return int(blob.generation)

    def copy(self, source: str, target: str) -> ResultFile:
        """
        Copy ``source`` to ``target`` within the store; return ``target``.

        What is there already must be the same.

        :param source: may name a generation.
        :raises ObjectChanged: that generation is not there (any more), or ``target`` holds something else.
        """
        from google.api_core.exceptions import NotFound, PreconditionFailed

        found = self.find(source)
        if found is None:
            raise ObjectChanged(
                f"{source} is not there; a bucket without object versioning keeps the newest only"
            )
        bucket, name = split_uri(found.uri)
        target_bucket, target_name = split_uri(target)
        blob = self._client.bucket(target_bucket).blob(target_name)
        origin = self._client.bucket(bucket).blob(name, generation=found.generation)
        try:
            token, _, _ = blob.rewrite(origin, if_generation_match=0)
            while token:  # large objects, and those of another location, take several calls
                token, _, _ = blob.rewrite(origin, token=token, if_generation_match=0)
        except NotFound as error:
            raise ObjectChanged(f"{source} was replaced while it was copied") from error
        except PreconditionFailed as error:
            present = self.find(target)
            if present is None or (present.crc32c, present.size_bytes) != (found.crc32c, found.size_bytes):
                raise ObjectChanged(f"{target} holds something else than {source}") from error
            return present
        copied = self.find(target)
        if copied is None:
            raise ObjectChanged(f"{target} was deleted while it was written")
        return copied


def _file(bucket: str, blob: Any) -> ResultFile:
    return ResultFile(
        uri=f"gs://{bucket}/{blob.name}",
        size_bytes=blob.size or 0,
        crc32c=blob.crc32c or "",
        generation=blob.generation,
    )


def split_uri(uri: str) -> tuple[str, str]:
    """
    Return bucket and object name of ``gs://BUCKET/NAME``.

    :raises InvalidArgument: it has another form.
    """
    scheme, _, rest = uri.partition("://")
    bucket, _, name = rest.partition("/")
    if scheme != "gs" or not bucket:
        raise InvalidArgument(f"expected gs://BUCKET/NAME, got {uri!r}")
    return bucket, name


def require_uri(name: str, uri: Any) -> None:
    """
    Refuse an argument that is no ``gs://`` address.

    :raises InvalidArgument: it has another form.
    """
    try:
        split_uri(str(uri))
    except InvalidArgument:
        raise InvalidArgument(
            f"{name} must be an address in Cloud Storage, gs://BUCKET/NAME, got {uri!r}; put what it names "
            "there, and give its address"
        ) from None


def folder_url(endpoint: str, uri: str) -> str:
    """
    Return where a browser finds a list of what is below the folder ``uri``. Pure.

    :param endpoint: URL of a local object store, whose list is JSON; empty: Google's, and so its console.
    """
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    prefix = f"{name.rstrip('/')}/" if name.rstrip("/") else ""
    if not endpoint:
        return f"https://console.cloud.google.com/storage/browser/{bucket}/{quote(prefix)}"
    return f"{endpoint}/storage/v1/b/{bucket}/o?prefix={quote(prefix, safe='')}"
