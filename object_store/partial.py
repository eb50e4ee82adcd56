"""
Partial responses: the parameter ``fields``. Pure.

Source: https://cloud.google.com/storage/docs/json_api#partial-response (2026-11-20): names separated by
commas, ``a/b`` and ``a(b,c)`` for what lies within, ``*`` for all.
"""

from __future__ import annotations

import re
from typing import Any

from object_store.errors import Invalid

#: Name -> what is wanted of its value; an empty selection, or ``*`` with one: all.
Selection = dict[str, "Selection"]
_TOKENS = re.compile(r"[A-Za-z0-9_*-]+|[(),/]")
_LENGTH = 4096
_DEPTH = 16


def parse_fields(text: str) -> Selection:
    """
    Return what is wanted.

    :raises Invalid: it is not such an expression, or has more than 4,096 characters or 16 levels.
    """
    tokens = _TOKENS.findall(text)
    if len(text) > _LENGTH or "".join(tokens) != re.sub(r"\s", "", text):
        raise _invalid(text)
    selection: Selection = {}
    if _list(tokens, text, 0, selection):
        raise _invalid(text)
    return selection


def select(value: Any, selection: Selection) -> Any:
    """Return the wanted part of a JSON value."""
    if not selection or ("*" in selection and not selection["*"]):
        return value
    if isinstance(value, list):
        return [select(item, selection) for item in value]
    if not isinstance(value, dict):
        return value
    everything = selection.get("*")
    chosen = {name: selection.get(name, everything) for name in value}
    return {name: select(value[name], wanted) for name, wanted in chosen.items() if wanted is not None}


def _list(tokens: list[str], text: str, depth: int, selection: Selection) -> list[str]:
    """Add what ``tokens`` want to ``selection``; return the tokens after them."""
    if depth > _DEPTH:
        raise _invalid(text)
    while True:
        names, tokens = _path(tokens, text)
        place = selection
        for name in names:
            place = place.setdefault(name, {})
        if tokens and tokens[0] == "(":
            tokens = _list(tokens[1:], text, depth + 1, place)
            if not tokens or tokens[0] != ")":
                raise _invalid(text)
            tokens = tokens[1:]
        else:
            # All of it, whatever else the text wants of it.
            place["*"] = {}
        if not tokens or tokens[0] != ",":
            return tokens
        tokens = tokens[1:]


def _path(tokens: list[str], text: str) -> tuple[list[str], list[str]]:
    names: list[str] = []
    while True:
        if not tokens or tokens[0] in "(),/" or len(names) > _DEPTH:
            raise _invalid(text)
        names.append(tokens[0])
        tokens = tokens[1:]
        if not tokens or tokens[0] != "/":
            return names, tokens
        tokens = tokens[1:]


def _invalid(text: str) -> Invalid:
    return Invalid(f"Invalid field selection {text[:80]!r}; an example: items(name,size),nextPageToken")
