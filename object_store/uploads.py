"""Uploads of several requests; they survive the client and the store's process."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from object_store.conditions import Conditions
from object_store.data.catalog import find_object, find_upload, put_upload, remove_upload
from object_store.data.contents import GrowingFile, Hashes, check_hashes, new_key
from object_store.data.records import Content, Object, Upload, now_us
from object_store.errors import Invalid, NotFound, StoreError
from object_store.store import Store, Target

#: How long an upload may take, as in Cloud Storage.
_WEEK_US = 7 * 24 * 3600 * 1_000_000
_HASHES_KEPT = 1000
_MOST_PARTS = 10_000


class Uploads:
    """The uploads of one store; safe for threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._growing: set[str] = set()
        #: Of the bytes that are here; what is not in it is computed from the file.
        self._hashes: OrderedDict[str, Hashes] = OrderedDict()

    def begin(
        self, target: Target, fields: Mapping[str, Any], wanted: Mapping[str, str] | None = None
    ) -> str:
        """
        Return the secret key of a new upload.

        :param wanted: the hashes that the object must have.
        """
        self._store.require_writable(target)
        self._store.contents.require_room()
        upload = Upload(
            key=new_key(),
            bucket=target.bucket,
            name=target.name,
            fields=fields,
            conditions=target.conditions.wanted,
            created=now_us(),
            wanted=wanted or {},
        )
        self._store.catalog.change(lambda connection: put_upload(connection, upload))
        return upload.key

    def find(self, key: str) -> Upload:
        """
        Return an upload.

        :raises NotFound: it was cancelled, or it is older than a week.
        """
        with self._store.catalog.reading() as connection:
            upload = find_upload(connection, key)
        if upload is None:
            raise NotFound("there is no such upload: it was cancelled, or a week has passed; begin a new one")
        return upload

    def outcome(self, upload: Upload) -> Object | None:
        """Return the object that the upload became; ``None``: none yet."""
        if upload.generation is None:
            return None
        with self._store.catalog.reading() as connection:
            found = find_object(connection, upload.bucket, upload.name, upload.generation)
        if found is None:
            raise NotFound.of_object(upload.bucket, upload.name, upload.generation)
        return found

    def take(self, key: str, *, anew: bool = False) -> GrowingFile:
        """
        Return the file of an upload, for one request at a time; :meth:`leave` gives it back.

        :param anew: without the bytes that are here.
        :raises StoreError: 503: another request is writing it; the client asks again.
        """
        with self._lock:
            if key in self._growing:
                raise _in_use()
            self._growing.add(key)
            hashes = self._hashes.pop(key, None)
        try:
            if self.find(key).generation is not None:
                # Another request has just finished it.
                raise _in_use()
            if anew:
                self._store.contents.drop_upload(key)
            return self._store.contents.grow(key, hashes)
        except BaseException:
            with self._lock:
                self._growing.discard(key)
            raise

    def leave(self, key: str, file: GrowingFile) -> None:
        """Give a file back, so that the next request may write it."""
        file.close()
        with self._lock:
            self._hashes[key] = file.hashes
            while len(self._hashes) > _HASHES_KEPT:
                self._hashes.popitem(last=False)
            self._growing.discard(key)

    def finish(self, upload: Upload, file: GrowingFile, wanted: Mapping[str, str]) -> Object:
        """
        Return the object that the upload becomes.

        :param wanted: the client's hashes, beside those that it gave at the begin.
        :raises Invalid: a hash differs; the upload is over.
        """
        content = file.hashes.content(new_key())
        try:
            check_hashes(content, {**upload.wanted, **wanted})
        except Invalid:
            self.cancel(upload.key)
            raise
        file.flush()
        return self._store.put(_target(upload), upload.fields, upload.key, content)

    def cancel(self, key: str) -> None:
        """
        Forget an upload and its bytes.

        :raises NotFound: it is not there.
        """
        upload = self.find(key)
        self._store.catalog.change(lambda connection: remove_upload(connection, key))
        for name in (key, *upload.files):
            self._store.contents.drop_upload(name)

    def expire(self) -> int:
        """Forget uploads that are a week old or whose bucket is gone; return how many."""
        with self._store.catalog.reading() as connection:
            rows = connection.execute(
                "SELECT key FROM uploads WHERE created < ? OR bucket NOT IN (SELECT name FROM buckets)",
                (now_us() - _WEEK_US,),
            ).fetchall()
        for (key,) in rows:
            self.cancel(key)
        return len(rows)

    # The XML API's uploads in parts; a part may come at any time, and again.

    def take_part(self, key: str, number: int) -> GrowingFile:
        """
        Return a new file for one part; the one before stays until this is complete.

        :raises Invalid: the number is not from 1 to 10,000.
        """
        self.find(key)
        if not 1 <= number <= _MOST_PARTS:
            raise Invalid(f"partNumber must be from 1 to {_MOST_PARTS}, got {number}")
        return self._store.contents.grow(f"{key}.{new_key()}")

    def keep_part(self, key: str, number: int, file: GrowingFile, wanted: Mapping[str, str]) -> Content:
        """Return what the part has, after it is on disk; its MD5 names it when the parts are joined."""
        file.flush()
        content = file.hashes.content(file.name)
        check_hashes(content, wanted)

        def change(connection: sqlite3.Connection) -> tuple[str, str] | None:
            upload = find_upload(connection, key)
            if upload is None or upload.generation is not None:
                raise NotFound("there is no such upload")
            parts = {**upload.parts, str(number): (str(content.md5), file.name)}
            put_upload(connection, replace(upload, parts=parts))
            return upload.parts.get(str(number))

        if before := self._store.catalog.change(change):
            self._store.contents.drop_upload(before[1])
        return content

    def drop_part(self, file: GrowingFile) -> None:
        """Remove the file of a part that is not kept."""
        self._store.contents.drop_upload(file.name)

    def join_parts(self, key: str, wanted: Mapping[int, str]) -> Object:
        """
        Return the object that the parts become, in the order of their numbers.

        :param wanted: MD5 in base64 by number.
        :raises Invalid: a part is missing, or another one than was sent.
        """
        upload = self.find(key)
        if found := self.outcome(upload):
            return found
        parts = upload.parts
        for number, md5 in wanted.items():
            if str(number) not in parts or parts[str(number)][0] != md5:
                raise Invalid(f"part {number} was not uploaded, or its ETag differs; upload it again")
        file = self.take(key, anew=True)
        try:
            for number in sorted(wanted):
                with self._store.contents.open_upload(parts[str(number)][1]) as part:
                    file.copy(part)
            file.flush()
            content = replace(file.hashes.content(new_key()), md5=None, components=len(wanted))
            stored = self._store.put(_target(upload), upload.fields, key, content)
        finally:
            self.leave(key, file)
        for name in upload.files:
            self._store.contents.drop_upload(name)
        return stored


def _target(upload: Upload) -> Target:
    return Target(bucket=upload.bucket, name=upload.name, conditions=Conditions(upload.conditions))


def _in_use() -> StoreError:
    return StoreError(
        HTTPStatus.SERVICE_UNAVAILABLE, "backendError", "another request sends this upload; ask again"
    )
