"""
The takeover of the folder that gcp-storage-emulator (2026.7.19) kept.

This project wrapped it before. The folder has ``objects/.meta``, a JSON file with the resources, and
``objects/BUCKET/SHA256-OF-NAME`` with the bytes.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from object_store.data.catalog import find_object, put_bucket, put_object
from object_store.data.contents import new_key
from object_store.data.records import Bucket, Object, now_us
from object_store.errors import StoreError
from object_store.resources import bucket_fields, object_fields
from object_store.store import Store

logger = logging.getLogger(__name__)


def take_over(store: Store, root: Path) -> int:
    """
    Take over the emulator's folder below ``root``; return how many objects it had.

    The folder is removed when all are stored. After a kill in the middle the next start goes on.

    :raises ValueError: the emulator's file of resources cannot be read.
    """
    folder = root / "objects"
    meta = folder / ".meta"
    if not meta.exists():
        return 0
    try:
        kept = json.loads(meta.read_text("utf-8"))
        buckets, contents = (dict(kept.get(name) or {}) for name in ("buckets", "objects"))
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{meta}, written by the object store of an earlier version, cannot be read: {error}; "
            f"restore it from a backup, or move {folder} away to begin with an empty store"
        ) from error
    for name, resource in buckets.items():
        _take_bucket(store, name, resource)
    count = 0
    for bucket, objects in contents.items():
        for name, resource in objects.items():
            count += _take_object(store, folder, bucket, name, resource)
    for path in folder.iterdir():
        # The list of them goes last: as long as it is there, the next start goes on.
        if path.is_dir():
            shutil.rmtree(path)
    shutil.rmtree(folder)
    logger.info("took %d objects over from an earlier version's folder", count)
    return count


def _take_bucket(store: Store, name: str, resource: Mapping[str, Any]) -> None:
    created = _moment(resource.get("timeCreated"))
    bucket = Bucket(
        name=name, fields=_what_is_served(bucket_fields, resource), created=created, updated=created
    )

    def change(connection: sqlite3.Connection) -> None:
        if not connection.execute("SELECT 1 FROM buckets WHERE name = ?", (name,)).fetchone():
            put_bucket(connection, bucket)

    store.catalog.change(change)


def _take_object(store: Store, folder: Path, bucket: str, name: str, resource: Mapping[str, Any]) -> bool:
    """Store one object with its generation; return whether its bytes are there."""
    source = folder / bucket / hashlib.sha256(name.encode()).hexdigest()
    generation = int(resource.get("generation") or now_us())
    with store.catalog.reading() as connection:
        if find_object(connection, bucket, name, generation):
            return True
    upload = new_key()
    try:
        store.contents.adopt(source, upload)
    except FileNotFoundError:
        logger.warning("%s/%s is left out: its bytes are missing", bucket, name)
        return False
    with closing(store.contents.grow(upload)) as file:
        content = file.hashes.content(new_key())
    store.contents.keep(upload, content.key)
    created = _moment(resource.get("timeCreated"))
    stored = Object(
        bucket=bucket,
        name=name,
        generation=generation,
        metageneration=int(resource.get("metageneration") or 1),
        content=content,
        fields=_what_is_served(object_fields, resource),
        created=created,
        updated=_moment(resource.get("updated")) if resource.get("updated") else created,
    )

    def change(connection: sqlite3.Connection) -> None:
        put_object(connection, stored)
        connection.execute(
            "UPDATE meta SET value = max(value, ?) WHERE name = 'last_generation'", (generation,)
        )

    store.catalog.change(change)
    return True


def _what_is_served(read: Any, resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that the store knows; what it does not is left behind."""
    fields: dict[str, Any] = {}
    for name, value in resource.items():
        try:
            fields = read({name: value}, fields)
        except StoreError as error:
            logger.warning("%s is left behind: %s", name, error)
    return fields


def _moment(text: Any) -> int:
    """Return a time of RFC 3339 in microseconds since the epoch; of anything else, the present."""
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1_000_000)
    except ValueError:
        return now_us()
