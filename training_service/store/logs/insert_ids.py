"""
Insert ids of log lines in few bytes. Pure.

A container's line has the id ``NANOSECONDS-PLACE``, 20 and 6 digits: its time on the engine and its place
among the lines of that instant. A trial's line has ``-trialN.`` behind it. The difference to the line's
timestamp, and the place, are stored. What follows, e.g. ``-dropped``, is the suffix. Any other id is a suffix
as a whole, with the place ``NO_PLACE``; so is that of a line which is not among the first million of its
instant.
"""

from __future__ import annotations

from typing import NamedTuple

NO_PLACE = -1
_MAX_NS = 2**63 - 1


class InsertId(NamedTuple):
    """
    An id in its parts.

    :param at_ns: when the engine got the line; ``None``: the id does not say.
    """

    at_ns: int | None
    place: int
    suffix: str


def make_insert_id(at_ns: int, place: int, trial_id: str = "", suffix: str = "") -> str:
    """Return an id that orders a container's lines, and differs between trials."""
    return f"{at_ns:020d}-{place:06d}{_mark(trial_id)}{suffix}"


def split_insert_id(insert_id: str, trial_id: str) -> InsertId:
    """Return the parts of an id."""
    mark, numbers, rest = _mark(trial_id), insert_id[:20] + insert_id[21:27], insert_id[27:]
    is_of_line = insert_id[20:21] == "-" and len(numbers) == 26 and numbers.isascii() and numbers.isdecimal()
    if not is_of_line or not rest.startswith(mark) or rest[:1].isdigit() or int(insert_id[:20]) > _MAX_NS:
        return InsertId(None, NO_PLACE, insert_id)
    return InsertId(int(insert_id[:20]), int(insert_id[21:27]), rest.removeprefix(mark))


def join_insert_id(timestamp_us: int, offset_ns: int, place: int, suffix: str, trial_id: str) -> str:
    """Return the id of a line that is stored with this timestamp, difference, place and suffix."""
    if place == NO_PLACE:
        return suffix
    return make_insert_id(timestamp_us * 1000 + offset_ns, place, trial_id, suffix)


def _mark(trial_id: str) -> str:
    return f"-trial{trial_id}." if trial_id else ""
