"""What a person writes about a field of an API, and the values to try it with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Certainty(StrEnum):
    """How we know the real service's behaviour; the value is the mark on the page."""

    DISCOVERY = "discovery"  #: the discovery document says so
    CAPTURED = "captured"  #: real clients send it, or take it
    DOCS = "docs"  #: Google's documentation says so
    UNVERIFIED = "unverified"  #: recalled or inferred; no source was found


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """
    What a person has to know of a field or a method.

    :param enforced: what this service does with the value; empty: nothing.
    :param deviation: how that differs from the real service, and why.
    :param certainty: of what the real service does; set where there is a deviation.
    """

    enforced: str = ""
    deviation: str = ""
    certainty: Certainty | None = None

    def __post_init__(self) -> None:
        if bool(self.deviation) != bool(self.certainty):
            raise ValueError(f"a deviation and its certainty go together, got {self!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    A value to try a field with.

    :param beside: what it needs elsewhere in the job: path -> value.
    """

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)


def differs(deviation: str, certainty: Certainty = Certainty.DISCOVERY) -> Note:
    """Return the note of what has no effect here, or another one."""
    return Note(deviation=deviation, certainty=certainty)


def each(*values: Any, **beside: Any) -> tuple[Sample, ...]:
    """Return a sample for each value. :param beside: as :class:`Sample` takes it."""
    return tuple(Sample(value=value, **beside) for value in values)
