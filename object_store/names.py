"""
Names of buckets and objects. Pure.

Source: https://cloud.google.com/storage/docs/buckets#naming and .../docs/objects#naming (2026-11-20).
"""

from __future__ import annotations

import re

from object_store.errors import Invalid

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_ADDRESS = re.compile(r"\d+(\.\d+){3}")
#: Of each part of a name between dots, as in DNS.
_LABEL_LENGTH = 63
_NAME_BYTES = 1024
_PROJECT = re.compile(r"[A-Za-z0-9_:.-]{1,64}")


def check_bucket_name(name: object) -> str:
    """
    Return ``name`` if a bucket may have it.

    :raises Invalid: it may not.
    """
    if (
        not isinstance(name, str)
        or not _BUCKET.fullmatch(name)
        or _ADDRESS.fullmatch(name)
        or any(not label or len(label) > _LABEL_LENGTH for label in name.split("."))
    ):
        raise Invalid(
            f"Invalid bucket name: {str(name)[:80]!r}; 3 to 63 lower-case letters, digits, '-', '_' and '.', "
            "with a letter or digit at both ends, and no IP address"
        )
    return name


def check_project(text: str) -> str:
    """
    Return ``text`` if a project may be called so; empty: none is given.

    :raises Invalid: it may not.
    """
    if text and not _PROJECT.fullmatch(text):
        raise Invalid(f"project must be an id or a number of at most 64 characters, got {text[:80]!r}")
    return text


def check_object_name(name: object) -> str:
    """
    Return ``name`` if an object may have it.

    :raises Invalid: it may not.
    """
    if not isinstance(name, str) or not name:
        raise Invalid("Required parameter: name")
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= _NAME_BYTES or "\r" in name or "\n" in name or "\0" in name or name in (".", ".."):
        raise Invalid(
            f"Invalid object name {name[:80]!r}: 1 to {_NAME_BYTES} bytes of UTF-8 without NUL, CR and LF, "
            "and neither '.' nor '..'"
        )
    return name
