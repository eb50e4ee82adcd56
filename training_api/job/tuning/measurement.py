"""One report of a metric by a trainer. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: What a column of the database, and a reader of the results, can bear.
MAX_TAG_LENGTH = 256
MAX_STEP = 2**63 - 1
#: The year 9999, as the API's timestamps end there.
MAX_REPORTED_US = 253_402_300_799_999_999

Identity = tuple[str, int, float | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    One value of one metric.

    :param tag: the metric's name, 1 to 256 characters.
    :param step: the trainer's own count, a 64-bit integer.
    :param value: any float; NaN and the infinities are what a diverged trainer reports.
    :param reported_us: the trainer's clock, in microseconds since the epoch.
    """

    tag: str
    step: int
    value: float
    reported_us: int

    def __post_init__(self) -> None:
        if not 0 < len(self.tag) <= MAX_TAG_LENGTH:
            raise ValueError(
                f"a metric's tag must have 1 to {MAX_TAG_LENGTH} characters, got {len(self.tag)}"
            )
        if "\x00" in self.tag or not self.tag.isprintable():
            raise ValueError(f"a metric's tag must be printable, got {self.tag!r}")
        if not -MAX_STEP <= self.step <= MAX_STEP:
            raise ValueError("a metric's step must be a 64-bit integer, got a larger one")
        if not 0 <= self.reported_us <= MAX_REPORTED_US:
            raise ValueError(f"a metric's time must lie in the years 1970 to 9999, got {self.reported_us} us")

    @property
    def identity(self) -> Identity:
        """Return what tells one report from another; equal for equal reports, also of NaN."""
        return self.tag, self.step, None if math.isnan(self.value) else self.value, self.reported_us
