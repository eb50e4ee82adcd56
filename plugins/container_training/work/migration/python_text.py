"""Python source as ruff formats it: values, and calls with an argument a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Ruff's and Black's default; what fits is left on its line by formatters with longer lines, too.
LINE_WIDTH = 88
INDENT = "    "
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True, slots=True)
class Code:
    """An expression that stands as it is."""

    text: str


def literal(value: Any, used: int, indent: int) -> str:
    """
    Return the source of a value. Pure.

    :param used: columns that are taken on its first line, after the value too.
    :param indent: levels of that line; longer values go on below it.
    """
    inline = _inline(value)
    if not isinstance(value, (Mapping, list, tuple)) or used + len(inline) <= LINE_WIDTH:
        return inline
    inner = INDENT * (indent + 1)
    if isinstance(value, Mapping):
        lines = [
            f"{inner}{text(str(key))}: {literal(item, len(inner) + len(text(str(key))) + 3, indent + 1)},"
            for key, item in value.items()
        ]
        return "\n".join(["{", *lines, f"{INDENT * indent}}}"])
    lines = [f"{inner}{literal(item, len(inner) + 1, indent + 1)}," for item in value]
    return "\n".join(["[", *lines, f"{INDENT * indent}]"])


def text(value: str) -> str:
    """Return a string's source: in double quotes, unless single ones need fewer escapes. Pure."""
    quote = "'" if value.count('"') > value.count("'") else '"'
    return quote + "".join(_character(character, quote) for character in value) + quote


def _character(character: str, quote: str) -> str:
    if character == quote:
        return f"\\{character}"
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    number = ord(character)
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )


def _inline(value: Any) -> str:
    if isinstance(value, Code):
        return value.text
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text(str(key))}: {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return repr(value)
