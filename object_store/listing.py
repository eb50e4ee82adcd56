"""
A page of the list of a bucket's objects.

Source: https://cloud.google.com/storage/docs/json_api/v1/objects/list (2026-11-20).
"""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field

from object_store.conditions import whole_number
from object_store.data.catalog import find_bucket, scan_objects
from object_store.data.records import Object
from object_store.errors import Invalid, NotServed
from object_store.globs import Glob

_PAGE = 1000
#: A page ends after so many rows, whatever matches: no request reads a whole large bucket.
_ROWS = 20_000
#: Higher than any generation.
_LAST_GENERATION = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """What a list is asked for; see the source above for the words."""

    prefix: str = ""
    delimiter: str = ""
    start: str = ""
    end: str | None = None
    versions: bool = False
    trailing_delimiter: bool = False
    glob: Glob | None = None
    limit: int = _PAGE
    #: Name and generation after which the page begins.
    after: tuple[str, int] = ("", 0)

    @classmethod
    def of(cls, query: Mapping[str, str]) -> ListQuery:
        """
        Return the query of a request.

        :raises Invalid: a value is not allowed.
        :raises NotServed: soft-deleted objects are asked for.
        """
        if _flag(query, "softDeleted"):
            raise NotServed("soft delete: what was deleted is gone; a bucket with versioning keeps it")
        delimiter, pattern = query.get("delimiter", ""), query.get("matchGlob")
        if pattern and delimiter not in ("", "/"):
            raise Invalid("When listing with a glob pattern, the only supported delimiter is '/'.")
        token = query.get("pageToken")
        limit = min(whole_number("maxResults", query.get("maxResults") or str(_PAGE)), _PAGE)
        return cls(
            prefix=query.get("prefix", ""),
            delimiter=delimiter,
            start=query.get("startOffset", ""),
            end=query.get("endOffset") or None,
            versions=_flag(query, "versions"),
            trailing_delimiter=_flag(query, "includeTrailingDelimiter"),
            glob=Glob(pattern) if pattern else None,
            limit=limit or _PAGE,
            after=_read_token(token) if token else ("", 0),
        )

    def admits(self, name: str) -> bool:
        """Tell whether the pattern, if there is one, has the name."""
        return self.glob is None or self.glob.matches(name)


@dataclass(slots=True)
class Page:
    """Objects and common prefixes by name, and where the next page begins."""

    objects: list[Object] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    next_token: str | None = None


def list_objects(connection: sqlite3.Connection, bucket: str, query: ListQuery) -> Page:
    """
    Return one page.

    :raises NotFound: there is no such bucket.
    """
    find_bucket(connection, bucket)
    page = Page()
    after = max(query.after, (max(query.prefix, query.start), -1))
    end = min((text for text in (query.end, next_after(query.prefix)) if text), default=None)
    rows = 0
    while True:
        skipped_to = None
        for found in scan_objects(connection, bucket, after, end, versions=query.versions):
            rows += 1
            folder = _folder_of(found.name, query)
            if len(page.objects) + len(page.prefixes) >= query.limit or rows > _ROWS:
                page.next_token = _write_token(after)
                return page
            after = (found.name, found.generation)
            is_shown = folder is None or (query.trailing_delimiter and folder == found.name)
            if is_shown and query.admits(found.name):
                page.objects.append(found)
            if folder is not None:
                if query.admits(folder):
                    page.prefixes.append(folder)
                # The rest of the folder is not read.
                if (skipped_to := next_after(folder)) is None:
                    return page
                after = (skipped_to, -1)
                break
        if skipped_to is None:
            return page


def _folder_of(name: str, query: ListQuery) -> str | None:
    """Return the common prefix that stands for the object; ``None``: it stands for itself."""
    if not query.delimiter:
        return None
    place = name.find(query.delimiter, len(query.prefix))
    return None if place < 0 else name[: place + len(query.delimiter)]


def next_after(prefix: str) -> str | None:
    """Return the first name after all that begin with ``prefix``; ``None``: there is none."""
    if not (shorter := prefix.rstrip("\U0010ffff")):
        return None
    # What lies between is no character, but a half of one in UTF-16.
    last = "\ue000" if shorter[-1] == "\ud7ff" else chr(ord(shorter[-1]) + 1)
    return shorter[:-1] + last


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() == "true"


def _write_token(after: tuple[str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(after).encode()).decode()


def _read_token(token: str) -> tuple[str, int]:
    try:
        name, generation = json.loads(base64.urlsafe_b64decode(token))
        if isinstance(name, str) and isinstance(generation, int) and -1 <= generation <= _LAST_GENERATION:
            name.encode()
            return name, generation
    except (ValueError, TypeError, binascii.Error, RecursionError):
        pass
    raise Invalid("pageToken is not one that this list gave; leave it out to begin anew")
