"""
The catalog: which buckets, objects and uploads there are. A SQLite file in WAL mode.

Changes run on the writer's thread, reads on any thread.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from object_store.data.records import Bucket, Content, Object, Upload, now_us
from object_store.data.writer import Change, Writer
from object_store.errors import NotFound

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('schema_version', 1), ('last_generation', 0);
CREATE TABLE IF NOT EXISTS buckets (
  name TEXT PRIMARY KEY, project TEXT NOT NULL, fields TEXT NOT NULL, metageneration INTEGER NOT NULL,
  created INTEGER NOT NULL, updated INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
  bucket TEXT NOT NULL, name TEXT NOT NULL, generation INTEGER NOT NULL, metageneration INTEGER NOT NULL,
  key TEXT NOT NULL, size INTEGER NOT NULL, crc32c TEXT NOT NULL, md5 TEXT, components INTEGER NOT NULL,
  fields TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, deleted INTEGER,
  PRIMARY KEY (bucket, name, generation)
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS live_objects ON objects (bucket, name) WHERE deleted IS NULL;
CREATE TABLE IF NOT EXISTS uploads (
  key TEXT PRIMARY KEY, bucket TEXT NOT NULL, name TEXT NOT NULL, fields TEXT NOT NULL,
  conditions TEXT NOT NULL, created INTEGER NOT NULL, wanted TEXT NOT NULL, parts TEXT NOT NULL,
  generation INTEGER
) WITHOUT ROWID;
"""
_BUCKET_COLUMNS = "name, project, fields, metageneration, created, updated"
_OBJECT_COLUMNS = (
    "bucket, name, generation, metageneration, key, size, crc32c, md5, components, "
    "fields, created, updated, deleted"
)
_UPLOAD_COLUMNS = "key, bucket, name, fields, conditions, created, wanted, parts, generation"
_BUSY_SECONDS = 30.0

_Result = TypeVar("_Result")


class Catalog:
    """
    Reads and changes of one file; safe for threads.

    :param path: of the file, which is made.
    :raises ValueError: a newer version of the store wrote it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        #: Idle connections. A pool, not one for each thread: the threads of requests come and go.
        self._readers: list[sqlite3.Connection] = []
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_SCHEMA)
            found = connection.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()[0]
            if found > SCHEMA_VERSION:
                raise ValueError(
                    f"{path} has schema version {found}, this object store knows {SCHEMA_VERSION}; run a newer one"
                )
        self._writer = Writer(self._connect)

    def change(self, change: Change[_Result]) -> _Result:
        """Return what ``change`` returned, after it is on disk."""
        return self._writer.submit(change).result()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection, for one consistent look."""
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = self._connect()
            connection.execute("PRAGMA query_only=ON")
        connection.execute("BEGIN")
        try:
            yield connection
        finally:
            connection.execute("COMMIT")
            self._readers.append(connection)

    def close(self) -> None:
        """Finish the changes and close all connections; no request may be under way."""
        self._writer.close()
        for connection in self._readers:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # What was answered 200 survives a power cut.
        connection.execute("PRAGMA synchronous=FULL")
        return connection


def find_bucket(connection: sqlite3.Connection, name: str) -> Bucket:
    """
    Return a bucket.

    :raises NotFound: there is none of that name.
    """
    row = connection.execute(
        f"SELECT {_BUCKET_COLUMNS} FROM buckets WHERE name = ?",  # noqa: S608 - constants
        (name,),
    ).fetchone()
    if row is None:
        raise NotFound.of_bucket(name)
    return _bucket(row)


def list_buckets(
    connection: sqlite3.Connection, prefix: str, after: str, limit: int, project: str = ""
) -> list[Bucket]:
    """
    Return buckets by name, those after ``after``.

    :param project: only its buckets, and those that belong to every project; empty: all.
    """
    rows = connection.execute(
        f"SELECT {_BUCKET_COLUMNS} FROM buckets"  # noqa: S608 - constants
        " WHERE name > ? AND substr(name, 1, ?) = ? AND (project IN ('', ?) OR ? = '')"
        " ORDER BY name LIMIT ?",
        (after, len(prefix), prefix, project, project, limit),
    )
    return [_bucket(row) for row in rows]


def put_bucket(connection: sqlite3.Connection, bucket: Bucket) -> None:
    """Write a bucket, new or changed."""
    connection.execute(
        f"INSERT OR REPLACE INTO buckets ({_BUCKET_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608 - constants
        (
            bucket.name,
            bucket.project,
            json.dumps(bucket.fields),
            bucket.metageneration,
            bucket.created,
            bucket.updated,
        ),
    )


def find_object(
    connection: sqlite3.Connection, bucket: str, name: str, generation: int | None = None
) -> Object | None:
    """Return an object's live generation, or the one that is asked for; ``None``: there is none."""
    which, values = ("deleted IS NULL", []) if generation is None else ("generation = ?", [generation])
    row = connection.execute(
        f"SELECT {_OBJECT_COLUMNS} FROM objects WHERE bucket = ? AND name = ? AND {which}",  # noqa: S608  # constants
        (bucket, name, *values),
    ).fetchone()
    return _object(row) if row else None


def scan_objects(
    connection: sqlite3.Connection, bucket: str, after: tuple[str, int], before: str | None, *, versions: bool
) -> Iterator[Object]:
    """
    Yield objects by name and generation.

    :param after: the first one is the next after this name and generation.
    :param before: names from here on are left out; ``None``: none.
    :param versions: noncurrent generations too.
    """
    where, values = "bucket = ? AND (name, generation) > (?, ?) AND name >= ?", [bucket, *after, after[0]]
    if before is not None:
        where, values = f"{where} AND name < ?", [*values, before]
    if not versions:
        where = f"{where} AND deleted IS NULL"
    rows = connection.execute(
        f"SELECT {_OBJECT_COLUMNS} FROM objects WHERE {where} ORDER BY name, generation",  # noqa: S608  # constants
        values,
    )
    return map(_object, rows)


def sum_of_objects(
    connection: sqlite3.Connection, bucket: str, prefix: str, before: str | None, since: int
) -> tuple[int, int]:
    """
    Return number and bytes of the generations whose names begin with ``prefix``.

    :param before: the first name after those; ``None``: there is none.
    :param since: in microseconds since the epoch; what was made before is left out.
    """
    where, values = "bucket = ? AND name >= ? AND created >= ?", [bucket, prefix, since]
    if before is not None:
        where, values = f"{where} AND name < ?", [*values, before]
    count, size = connection.execute(
        f"SELECT count(*), coalesce(sum(size), 0) FROM objects WHERE {where}",  # noqa: S608  # constants
        values,
    ).fetchone()
    return count, size


def put_object(connection: sqlite3.Connection, stored: Object) -> None:
    """Write one generation of an object, new or changed."""
    content = stored.content
    connection.execute(
        f"INSERT OR REPLACE INTO objects ({_OBJECT_COLUMNS})"  # noqa: S608  # constants
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            stored.bucket,
            stored.name,
            stored.generation,
            stored.metageneration,
            content.key,
            content.size,
            content.crc32c,
            content.md5,
            content.components,
            json.dumps(stored.fields),
            stored.created,
            stored.updated,
            stored.deleted,
        ),
    )


def retire(connection: sqlite3.Connection, bucket: Bucket, present: Object) -> str | None:
    """
    Make the live generation noncurrent, or remove it.

    :return: the key of the contents to remove; ``None``: the bucket keeps versions.
    """
    if bucket.keeps_versions:
        put_object(connection, replace(present, deleted=now_us()))
        return None
    return remove(connection, present)


def remove(connection: sqlite3.Connection, present: Object) -> str:
    """Remove one generation; return the key of its contents."""
    connection.execute(
        "DELETE FROM objects WHERE bucket = ? AND name = ? AND generation = ?",
        (present.bucket, present.name, present.generation),
    )
    return present.content.key


def next_generation(connection: sqlite3.Connection) -> int:
    """Return a number above all generations of this store, also if the clock is set back."""
    return int(
        connection.execute(
            "UPDATE meta SET value = max(value + 1, ?) WHERE name = 'last_generation' RETURNING value",
            (now_us(),),
        ).fetchone()[0]
    )


def find_upload(connection: sqlite3.Connection, key: str) -> Upload | None:
    """Return an upload; ``None``: it is unknown, cancelled or expired."""
    row = connection.execute(f"SELECT {_UPLOAD_COLUMNS} FROM uploads WHERE key = ?", (key,)).fetchone()  # noqa: S608
    return _upload(row) if row else None


def _upload(row: tuple[Any, ...]) -> Upload:
    key, bucket, name, fields, conditions, created, wanted, parts, generation = row
    return Upload(
        key=key,
        bucket=bucket,
        name=name,
        fields=json.loads(fields),
        conditions=json.loads(conditions),
        created=created,
        wanted=json.loads(wanted),
        parts=json.loads(parts),
        generation=generation,
    )


def uploads_below(connection: sqlite3.Connection, bucket: str, prefix: str, since: int) -> list[Upload]:
    """Return the uploads under way, begun at ``since`` or later, below ``prefix``."""
    rows = connection.execute(
        f"SELECT {_UPLOAD_COLUMNS} FROM uploads"  # noqa: S608 - constants
        " WHERE bucket = ? AND substr(name, 1, ?) = ? AND created >= ? AND generation IS NULL",
        (bucket, len(prefix), prefix, since),
    )
    return [_upload(row) for row in rows]


def put_upload(connection: sqlite3.Connection, upload: Upload) -> None:
    """Write an upload, new or changed."""
    connection.execute(
        f"INSERT OR REPLACE INTO uploads ({_UPLOAD_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608  # constants
        (
            upload.key,
            upload.bucket,
            upload.name,
            json.dumps(upload.fields),
            json.dumps(upload.conditions),
            upload.created,
            json.dumps(upload.wanted),
            json.dumps(upload.parts),
            upload.generation,
        ),
    )


def remove_upload(connection: sqlite3.Connection, key: str) -> bool:
    """Remove an upload; return whether it was there."""
    return connection.execute("DELETE FROM uploads WHERE key = ?", (key,)).rowcount > 0


def _bucket(row: tuple[Any, ...]) -> Bucket:
    name, project, fields, metageneration, created, updated = row
    return Bucket(
        name=name,
        project=project,
        fields=json.loads(fields),
        metageneration=metageneration,
        created=created,
        updated=updated,
    )


@lru_cache(maxsize=1024)  # many objects have equal fields, which are never changed
def _fields(text: str) -> Mapping[str, Any]:
    fields: dict[str, Any] = json.loads(text)
    return fields


def _object(row: tuple[Any, ...]) -> Object:
    bucket, name, generation, metageneration, key, size, crc32c, md5, components, fields, *times = row
    created, updated, deleted = times
    return Object(
        bucket=bucket,
        name=name,
        generation=generation,
        metageneration=metageneration,
        content=Content(key=key, size=size, crc32c=crc32c, md5=md5, components=components),
        fields=_fields(fields),
        created=created,
        updated=updated,
        deleted=deleted,
    )
