"""
Patterns of object names: the parameter ``matchGlob``. Pure.

Source: https://cloud.google.com/storage/docs/json_api/v1/objects/list#list-object-glob (2026-11-20).
"""

from __future__ import annotations

import re
from collections.abc import Set

from object_store.errors import Invalid

_LENGTH = 1024
_WILDCARDS = 32
_DEPTH = 16
_SIGNS = re.compile(r"\*\*/|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|[{},]|[^*?\[\\{},]+|.", re.DOTALL)
_RANGES = re.compile(r"(.)-(.)|(.)", re.DOTALL)


class Glob:
    """
    A pattern of names.

    ``*`` and ``?`` stay within a folder, ``**`` does not; ``[a-z]`` and ``{a,b}`` are alternatives.
    All places that a part of the pattern can reach are found at once. A regular expression would try them
    one after the other, which takes hours for some patterns, and nobody else would be answered meanwhile.

    :raises Invalid: it is too long, has more than 32 wildcards, or a brace is open.
    """

    def __init__(self, pattern: str) -> None:
        signs = _SIGNS.findall(pattern)
        if len(pattern) > _LENGTH or sum(sign[0] in "*?[" for sign in signs) > _WILDCARDS:
            raise Invalid(f"matchGlob may have {_LENGTH} characters and {_WILDCARDS} wildcards")
        self._ways, rest = _alternatives(signs, 0)
        if rest:
            raise _invalid(pattern)

    def matches(self, name: str) -> bool:
        """Tell whether the pattern has the whole name."""
        return len(name) in _ends(self._ways, name, {0})


#: Alternatives, each a sequence of signs or of alternatives within it.
_Ways = list[list["str | _Ways"]]


def _alternatives(signs: list[str], depth: int) -> tuple[_Ways, list[str]]:
    """Return what lies before the brace that closes, and the signs from it on."""
    if depth > _DEPTH:
        raise Invalid(f"matchGlob may have {_DEPTH} braces within each other")
    ways: _Ways = [[]]
    while signs and signs[0] != "}":
        sign, signs = signs[0], signs[1:]
        if sign == "{":
            within, signs = _alternatives(signs, depth + 1)
            if not signs:
                raise _invalid(sign)
            signs = signs[1:]
            ways[-1].append(within)
        elif sign == "," and depth:
            ways.append([])
        else:
            ways[-1].append(sign)
    return ways, signs


def _ends(ways: _Ways, name: str, starts: Set[int]) -> Set[int]:
    """Return where what begins at one of ``starts`` may end."""
    found: set[int] = set()
    for way in ways:
        places = starts
        for sign in way:
            places = _step(sign, name, places) if isinstance(sign, str) else _ends(sign, name, places)
        found |= places
    return found


def _step(sign: str, name: str, places: Set[int]) -> Set[int]:
    if not places:
        return places
    if sign == "**/":
        # The folders in between may be none.
        return places | {place + 1 for place in range(min(places), len(name)) if name[place] == "/"}
    if sign.startswith("**"):
        return set(range(min(places), len(name) + 1))
    if sign == "*":
        reached: set[int] = set()
        for place in sorted(places):
            if place not in reached:
                folder_end = name.find("/", place)
                reached.update(range(place, (len(name) if folder_end < 0 else folder_end) + 1))
        return reached
    if sign == "?" or (sign[0] == "[" and len(sign) > 2):
        return {place + 1 for place in places if place < len(name) and _has(sign, name[place])}
    text = sign[1:] if sign[0] == "\\" and len(sign) == 2 else sign
    return {place + len(text) for place in places if name.startswith(text, place)}


def _has(sign: str, character: str) -> bool:
    if character == "/" or sign == "?":
        return character != "/"
    members = sign[1:-1]
    is_negated = members[0] in "!^"
    ranges = _RANGES.findall(members[is_negated:])
    return is_negated is not any(
        character == single or low <= character <= high != "" for low, high, single in ranges
    )


def _invalid(pattern: str) -> Invalid:
    return Invalid(f"matchGlob {pattern[:80]!r} is not a pattern: a brace has no other one")
