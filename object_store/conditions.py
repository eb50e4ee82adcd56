"""
Preconditions of requests. Pure.

Source: https://cloud.google.com/storage/docs/request-preconditions and .../json_api/v1/objects (2026-11-20).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from object_store.errors import ConditionNotMet, Invalid

#: What a condition is compared with, and whether equal is what is wanted.
_CONDITIONS = {
    "GenerationMatch": ("generation", True),
    "GenerationNotMatch": ("generation", False),
    "MetagenerationMatch": ("metageneration", True),
    "MetagenerationNotMatch": ("metageneration", False),
}


class Versioned(Protocol):
    """A bucket or an object, as it is now."""

    @property
    def generation(self) -> int:
        """Which contents it has."""

    @property
    def metageneration(self) -> int:
        """Which metadata these contents have; begins at 1."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """
    What a request demands of the object that it reads or writes.

    :param wanted: value by name without prefix, e.g. ``{"GenerationMatch": 0}``.
    :param prefix: of the names in the request: ``if``, or ``ifSource`` for the source of a copy.
    """

    wanted: Mapping[str, int] = field(default_factory=dict)
    prefix: str = "if"

    @classmethod
    def of(cls, query: Mapping[str, str], prefix: str = "if") -> Conditions:
        """
        Return the conditions in ``query``.

        :raises Invalid: one is not a whole number of at most 63 bits.
        """
        return cls(
            {
                suffix: whole_number(name, query[name])
                for suffix in _CONDITIONS
                if (name := prefix + suffix) in query
            },
            prefix,
        )

    def and_new(self) -> Conditions:
        """Return these, and that there is no object yet."""
        return replace(self, wanted={**self.wanted, "GenerationMatch": 0})

    def check(self, present: Versioned | None, *, is_read: bool = False) -> None:
        """
        Return if the object is as wanted.

        :param present: ``None``: there is none; its generation counts as 0.
        :raises ConditionNotMet: it is not.
        """
        for suffix, wanted in self.wanted.items():
            attribute, wants_equal = _CONDITIONS[suffix]
            found = int(getattr(present, attribute)) if present else 0
            if (wanted == found) is not wants_equal:
                raise ConditionNotMet(
                    self.prefix + suffix, wanted, found, is_unchanged=is_read and not wants_equal
                )


NO_CONDITIONS = Conditions()


def whole_number(name: str, text: str) -> int:
    """
    Return the number in the parameter ``name``.

    :raises Invalid: it is none, or it has more than 63 bits.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) >= 2**63:
        raise Invalid(f"{name} must be a whole number from 0 to {2**63 - 1}, got {text[:40]!r}")
    return int(text)
