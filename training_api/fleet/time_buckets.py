"""From intervals to series over time: mean and maximum of a level in each bucket."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: ``(start, end, amount)``: from ``start`` until before ``end``, in seconds since the epoch, the level is
#: ``amount`` higher.
Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """
    Stretches of time of ``seconds`` each, the last of which is shorter where ``end`` cuts it.

    :param start: of the first, in seconds since the epoch.
    :param end: what comes later is not looked at; above ``start``.
    """

    start: float
    end: float
    seconds: float

    def __post_init__(self) -> None:
        if not (self.end > self.start and self.seconds > 0):
            raise ValueError(
                f"end must be after start and seconds above 0, got {self.start}, {self.end}, {self.seconds}"
            )

    @classmethod
    def until(cls, end: float, window_seconds: float, seconds: float) -> Buckets:
        """
        Return the buckets of the window before ``end``. Pure.

        They begin at multiples of ``seconds`` since the epoch.
        """
        return cls(
            start=math.floor((end - window_seconds) / seconds) * seconds,
            end=end,
            seconds=seconds,
        )

    @property
    def times(self) -> list[float]:
        """Where each begins."""
        count = math.ceil((self.end - self.start) / self.seconds)
        return [self.start + place * self.seconds for place in range(count)]

    @property
    def lengths(self) -> list[float]:
        """How many seconds each has."""
        return [min(self.seconds, self.end - time) for time in self.times]


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """
    A level by bucket.

    :param integral: level x seconds.
    :param peak: the highest that it was.
    """

    integral: Sequence[float]
    peak: Sequence[float]


def levels(intervals: Iterable[Interval], buckets: Buckets) -> Levels:
    """
    Return the sum of the amounts of all intervals, over time.

    Pure; takes as long as sorting the intervals does. An interval that ends before it begins, or where it
    does, counts nothing.
    """
    times = buckets.times
    integral, peak = [0.0] * len(times), [0.0] * len(times)
    level, since = 0.0, buckets.start
    for moment, change in [*_changes(intervals, buckets), (buckets.end, 0.0)]:
        if moment > since:
            _fill(integral, peak, buckets, since, moment, level)
            since = moment
        level += change
        if abs(level) < 1e-9:
            level = 0.0  # what rounding left of amounts that came and went
    return Levels(integral=integral, peak=peak)


def means(found: Levels, buckets: Buckets) -> list[float]:
    """Return the average level by bucket. Pure."""
    return [
        amount / length if length > 0 else 0.0
        for amount, length in zip(found.integral, buckets.lengths, strict=True)
    ]


def _changes(intervals: Iterable[Interval], buckets: Buckets) -> list[tuple[float, float]]:
    found = []
    for start, end, amount in intervals:
        first, last = max(start, buckets.start), min(end, buckets.end)
        if last > first and amount:
            found += [(first, amount), (last, -amount)]
    # At the same moment ends come first or last alike: a level that lasted no time is not looked at.
    found.sort(key=lambda change: change[0])
    return found


def _fill(
    integral: list[float], peak: list[float], buckets: Buckets, since: float, until: float, level: float
) -> None:
    """Add ``level`` to the buckets from ``since`` until ``until``."""
    if not level:
        return
    place = min(int((since - buckets.start) // buckets.seconds), len(integral) - 1)
    while since < until and place < len(integral):
        end = min(buckets.start + (place + 1) * buckets.seconds, until)
        if end > since:
            integral[place] += level * (end - since)
            peak[place] = max(peak[place], level)
        since = max(end, since)
        place += 1
