"""
Buckets and objects: what each request does to the catalog and to the files.

A file is complete before the catalog names it, and is removed after the catalog has forgotten it. So a kill
leaves files that nobody names, never names without a file; the next start removes those files.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from object_store.conditions import NO_CONDITIONS, Conditions
from object_store.data.catalog import (
    Catalog,
    find_bucket,
    find_object,
    find_upload,
    list_buckets,
    next_generation,
    put_bucket,
    put_object,
    put_upload,
    remove,
    retire,
)
from object_store.data.contents import Contents, new_key
from object_store.data.records import Bucket, Content, Object, now_us
from object_store.errors import Conflict, Invalid, NotFound
from object_store.listing import ListQuery, Page, list_objects
from object_store.names import check_bucket_name, check_object_name, check_project
from object_store.resources import bucket_fields, object_fields

logger = logging.getLogger(__name__)

MOST_COMPONENTS = 32
#: An object that is replaced between the look into the catalog and the opening of its file is tried again.
_ATTEMPTS = 5

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The object that a request is about, and how it must be."""

    bucket: str
    name: str
    generation: int | None = None
    conditions: Conditions = NO_CONDITIONS


class Store:
    """
    One folder with buckets; safe for threads. Only one process may have it.

    :param root: the folder, which is made.
    :param floor_bytes: nothing is written when the disk has less free than this.
    """

    def __init__(self, root: Path, floor_bytes: int = 0) -> None:
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)
        self.contents = Contents(root, floor_bytes)
        self.catalog = Catalog(root / "catalog.db")
        self._found_at_start = self.contents.files()

    def close(self) -> None:
        """Finish what was begun."""
        self.catalog.close()

    def sweep(self) -> int:
        """Remove the files that a kill has left, and return how many."""
        found, self._found_at_start = self._found_at_start, []
        removed = 0
        with self.catalog.reading() as connection:
            named = {key for (key,) in connection.execute("SELECT key FROM objects")}
        for folder, key in found:
            if folder == "contents" and key not in named:
                self.contents.remove(key)
            elif folder == "uploads" and not self._is_open_upload(key):
                self.contents.drop_upload(key)
            else:
                continue
            removed += 1
        return removed

    def _is_open_upload(self, key: str) -> bool:
        with self.catalog.reading() as connection:
            upload = find_upload(connection, key.partition(".")[0])
        return upload is not None and upload.generation is None

    # Buckets

    def create_bucket(self, name: object, body: Mapping[str, Any], project: str = "") -> Bucket:
        """
        Return a new bucket.

        :raises Conflict: it exists.
        """
        now = now_us()
        bucket = Bucket(
            name=check_bucket_name(name),
            project=check_project(project),
            fields=bucket_fields(body),
            created=now,
            updated=now,
        )

        def change(connection: sqlite3.Connection) -> Bucket:
            if connection.execute("SELECT 1 FROM buckets WHERE name = ?", (bucket.name,)).fetchone():
                raise Conflict(f"bucket {bucket.name!r} exists already; choose another name, or use it")
            put_bucket(connection, bucket)
            return bucket

        return self.catalog.change(change)

    def bucket(self, name: str, conditions: Conditions | None = None) -> Bucket:
        """
        Return a bucket.

        :raises NotFound: there is none of that name.
        :raises ConditionNotMet: it is not as wanted.
        """
        with self.catalog.reading() as connection:
            bucket = find_bucket(connection, name)
        if conditions:
            conditions.check(bucket, is_read=True)
        return bucket

    def buckets(self, prefix: str, after: str, limit: int, project: str = "") -> list[Bucket]:
        """Return up to ``limit`` buckets by name, of ``project`` if one is given."""
        with self.catalog.reading() as connection:
            return list_buckets(connection, prefix, after, limit, project)

    def patch_bucket(
        self, name: str, body: Mapping[str, Any], conditions: Conditions, *, anew: bool = False
    ) -> Bucket:
        """
        Return the bucket with other fields.

        :param anew: what ``body`` does not have is removed.
        """

        def change(connection: sqlite3.Connection) -> Bucket:
            present = find_bucket(connection, name)
            conditions.check(present)
            fields = bucket_fields(body, {} if anew else present.fields)
            changed = replace(
                present, fields=fields, metageneration=present.metageneration + 1, updated=now_us()
            )
            put_bucket(connection, changed)
            return changed

        return self.catalog.change(change)

    def delete_bucket(self, name: str, conditions: Conditions) -> None:
        """
        Delete a bucket.

        :raises Conflict: it has objects, noncurrent ones included.
        """

        def change(connection: sqlite3.Connection) -> None:
            conditions.check(find_bucket(connection, name))
            if connection.execute("SELECT 1 FROM objects WHERE bucket = ? LIMIT 1", (name,)).fetchone():
                raise Conflict(
                    f"The bucket you tried to delete is not empty: {name}; delete its objects first"
                )
            connection.execute("DELETE FROM buckets WHERE name = ?", (name,))

        self.catalog.change(change)

    # Objects

    def object(self, target: Target, *, is_read: bool = True) -> Object:
        """
        Return an object.

        :param is_read: this is the whole request; else another object is made of it.
        :raises NotFound: bucket, object or generation are not there.
        :raises ConditionNotMet: it is not as wanted.
        """
        with self.catalog.reading() as connection:
            found = _find(connection, target)
        target.conditions.check(found, is_read=is_read)
        return found

    def open(self, target: Target, *, is_read: bool = True) -> tuple[Object, BinaryIO]:
        """Return an object and its bytes; see :meth:`object`."""
        return self._with_file(target, lambda found: self.contents.open(found.content.key), is_read=is_read)

    def page(self, bucket: str, query: ListQuery) -> Page:
        """Return one page of the list of objects."""
        with self.catalog.reading() as connection:
            return list_objects(connection, bucket, query)

    def require_writable(self, target: Target) -> None:
        """
        Return if the object may be written as things are now; before its bytes are read.

        :raises NotFound: there is no such bucket.
        :raises ConditionNotMet: the object is not as wanted.
        """
        check_object_name(target.name)
        with self.catalog.reading() as connection:
            find_bucket(connection, target.bucket)
            target.conditions.check(find_object(connection, target.bucket, target.name))

    def put(self, target: Target, fields: Mapping[str, Any], upload: str, content: Content) -> Object:
        """
        Return the object whose bytes lie in the file of ``upload``; that file is gone afterwards.

        :param content: with the key that the bytes will have.
        :raises ConditionNotMet: the object is not as wanted.
        """
        check_object_name(target.name)
        self.contents.keep(upload, content.key)

        def change(connection: sqlite3.Connection) -> tuple[Object, list[str]]:
            stored, garbage = _publish(connection, target, fields, content)
            if begun := find_upload(connection, upload):
                put_upload(connection, replace(begun, generation=stored.generation))
            return stored, garbage

        return self._change_with(content.key, change)

    def patch(self, target: Target, body: Mapping[str, Any], *, anew: bool = False) -> Object:
        """
        Return the object with other fields.

        :param anew: what ``body`` does not have is removed.
        """

        def change(connection: sqlite3.Connection) -> Object:
            present = _find(connection, target)
            target.conditions.check(present)
            changed = replace(
                present,
                fields=object_fields(body, {} if anew else present.fields),
                metageneration=present.metageneration + 1,
                updated=now_us(),
            )
            put_object(connection, changed)
            return changed

        return self.catalog.change(change)

    def delete(self, target: Target) -> None:
        """
        Delete an object.

        In a bucket that keeps versions it becomes noncurrent, unless a generation is named.
        """

        def change(connection: sqlite3.Connection) -> tuple[None, list[str]]:
            present = _find(connection, target)
            target.conditions.check(present)
            if target.generation is not None:
                return None, [remove(connection, present)]
            garbage = retire(connection, find_bucket(connection, target.bucket), present)
            return None, [garbage] if garbage else []

        self._clean(self.catalog.change(change))

    def copy(self, source: Target, target: Target, body: Mapping[str, Any]) -> Object:
        """
        Return a copy, which shares the bytes.

        :param body: fields to be had instead of the source's; empty: the source's.
        """
        return self._copy(source, target, body, is_move=False)

    def move(self, source: Target, target: Target) -> Object:
        """Return the object under its new name; nobody ever sees both, or none."""
        if source.name == target.name:
            raise Invalid("the new name of an object must be another one")
        return self._copy(source, target, {}, is_move=True)

    def compose(self, target: Target, sources: Sequence[Target], body: Mapping[str, Any]) -> Object:
        """
        Return an object with the bytes of several, one after the other.

        :raises Invalid: there are no sources, or more than 32.
        """
        if not 0 < len(sources) <= MOST_COMPONENTS:
            raise Invalid(f"compose takes 1 to {MOST_COMPONENTS} source objects, got {len(sources)}")
        self.require_writable(target)
        given = object_fields(body)
        key, components, first = new_key(), 0, None
        try:
            with closing(self.contents.grow(key)) as growing:
                for source in sources:
                    found, file = self.open(source, is_read=False)
                    first = first or found
                    components += found.content.components or 1
                    with file:
                        growing.copy(file)
                growing.flush()
                content = replace(growing.hashes.content(new_key()), md5=None, components=components)
            fields = given or (first.fields if first else {})
            return self.put(target, fields, key, content)
        except BaseException:
            self.contents.drop_upload(key)
            raise

    def _copy(self, source: Target, target: Target, body: Mapping[str, Any], *, is_move: bool) -> Object:
        self.require_writable(target)
        given, fresh = object_fields(body), new_key()
        found, _ = self._with_file(
            source, lambda found: self.contents.share(found.content.key, fresh), is_read=False
        )
        fields = given or found.fields

        def change(connection: sqlite3.Connection) -> tuple[Object, list[str]]:
            stored, garbage = _publish(connection, target, fields, replace(found.content, key=fresh))
            if is_move:
                present = _find(connection, source)
                if present.generation != found.generation:
                    raise Conflict(f"{source.name!r} was changed while it was moved; move it again")
                retired = retire(connection, find_bucket(connection, source.bucket), present)
                garbage += [retired] if retired else []
            return stored, garbage

        return self._change_with(fresh, change)

    def _with_file(
        self, target: Target, use: Callable[[Object], _Result], *, is_read: bool
    ) -> tuple[Object, _Result]:
        """Return an object and what ``use`` returns of its file, also if it is replaced meanwhile."""
        for attempt in range(_ATTEMPTS):
            found = self.object(target, is_read=is_read)
            try:
                return found, use(found)
            except FileNotFoundError:
                logger.info("%s/%s was replaced; attempt %d", target.bucket, target.name, attempt + 1)
                time.sleep(0.01 * attempt)
        raise NotFound.of_object(target.bucket, target.name, found.generation)

    def _change_with(
        self, content: str, change: Callable[[sqlite3.Connection], tuple[Object, list[str]]]
    ) -> Object:
        """Return the object that ``change`` stores; if it fails, these contents are removed."""
        try:
            done = self.catalog.change(change)
        except BaseException:
            self.contents.remove(content)
            raise
        return self._clean(done)

    def _clean(self, done: tuple[_Result, list[str]]) -> _Result:
        result, garbage = done
        for key in garbage:
            self.contents.remove(key)
        return result


def _find(connection: sqlite3.Connection, target: Target) -> Object:
    find_bucket(connection, target.bucket)
    found = find_object(connection, target.bucket, target.name, target.generation)
    if found is None:
        raise NotFound.of_object(target.bucket, target.name, target.generation)
    return found


def _publish(
    connection: sqlite3.Connection, target: Target, fields: Mapping[str, Any], content: Content
) -> tuple[Object, list[str]]:
    """Return the new live generation of an object, and the keys that nobody needs any more."""
    bucket = find_bucket(connection, target.bucket)
    present = find_object(connection, target.bucket, target.name)
    target.conditions.check(present)
    garbage = retire(connection, bucket, present) if present else None
    now = now_us()
    stored = Object(
        bucket=target.bucket,
        name=target.name,
        generation=next_generation(connection),
        metageneration=1,
        content=content,
        fields=fields,
        created=now,
        updated=now,
    )
    put_object(connection, stored)
    return stored, [garbage] if garbage else []
