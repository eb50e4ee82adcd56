"""What the catalog keeps of buckets, objects and uploads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_us() -> int:
    """Return the time as microseconds since the epoch."""
    return time.time_ns() // 1000


def timestamp(microseconds: int) -> str:
    """Return a moment in RFC 3339, as the JSON API writes it."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_to_the_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=1024)  # the objects of a page are often of one second
def _to_the_second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """
    A bucket.

    :param project: which it belongs to; empty: to every one.
    :param fields: what clients set, as the JSON API has it: labels, location, versioning and the like.
    :param created: microseconds since the epoch, as all times here.
    """

    name: str
    fields: Mapping[str, Any]
    created: int
    updated: int
    project: str = ""
    metageneration: int = 1
    #: The API has one, for preconditions of buckets only the other number counts.
    generation: int = 0

    @property
    def keeps_versions(self) -> bool:
        """Tell whether an object that is overwritten or deleted stays as a noncurrent generation."""
        return bool((self.fields.get("versioning") or {}).get("enabled"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """
    Bytes that lie in a file.

    :param key: the file's name.
    :param size: bytes.
    :param crc32c: base64 of the big-endian CRC32C.
    :param md5: base64; ``None`` for what was composed, as in Cloud Storage.
    :param components: how many objects it was composed of; 0: none.
    """

    key: str
    size: int
    crc32c: str
    md5: str | None
    components: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """
    One generation of an object.

    :param fields: what clients set: content type, metadata, cache control and the like.
    :param deleted: when it became noncurrent; ``None``: it is live.
    """

    bucket: str
    name: str
    generation: int
    metageneration: int
    content: Content
    fields: Mapping[str, Any]
    created: int
    updated: int
    deleted: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """
    An upload of several requests: a resumable one, or a part of the XML API's.

    :param key: its secret name, and the name of the file that grows.
    :param conditions: by name without prefix.
    :param wanted: hashes that the client gave at the begin, base64 by name.
    :param parts: MD5 in base64 and file by number; of an upload in parts.
    """

    key: str
    bucket: str
    name: str
    fields: Mapping[str, Any]
    conditions: Mapping[str, int]
    created: int
    wanted: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    #: The object that the upload became; a client that did not get the answer asks again.
    generation: int | None = None

    @property
    def files(self) -> list[str]:
        """The files of the parts that were kept."""
        return [name for _, name in self.parts.values()]
