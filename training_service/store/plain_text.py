"""
Text that every database takes: without NUL, and without halves of surrogate pairs.

Pure. PostgreSQL refuses both in text and when it reads JSON; SQLite takes the first. U+FFFD replaces both.
"""

from __future__ import annotations

import json
from typing import Any

_NUL = "\x00"
_INSTEAD = "\N{REPLACEMENT CHARACTER}"
#: NUL as ``json.dumps`` writes it; also a part of text that need not be replaced.
_NUL_IN_JSON = "\\u0000"


def plain_text(text: str) -> str:
    """Return ``text`` with U+FFFD in the place of each character that cannot be stored."""
    if _NUL in text:
        text = text.replace(_NUL, _INSTEAD)
    if _can_be_encoded(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any) -> str:
    """
    Return ``value`` as JSON whose texts are plain.

    Not as ASCII: before 3.46, SQLite does not find a key that is written with escapes.
    """
    text = json.dumps(value, ensure_ascii=False)
    if _NUL_IN_JSON in text or not _can_be_encoded(text):
        return json.dumps(_plain(value), ensure_ascii=False)
    return text


def _can_be_encoded(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
