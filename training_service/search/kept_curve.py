"""A trial's curve in bounded memory. Pure."""

from __future__ import annotations

import math

from training_service.search.early_stopping import Point

#: [own choice] Reports of a curve that are kept: the rules read it off at 16 places and average it.
MAX_POINTS = 1000


class KeptCurve:
    """
    The reports of a trial, thinned as if it had reported less often.

    Up to ``MAX_POINTS`` reports are all kept; of more every second, fourth, eighth ... and besides them the
    lowest, the highest and the newest. What is kept depends on the reports alone, not on when they were
    added: a service that reads them all at once after a restart judges as the one before. NaN and the
    infinities are left out.
    """

    def __init__(self) -> None:
        self._kept: dict[int, Point] = {}
        self._every = 1
        self._count = 0
        self._lowest: tuple[int, Point] | None = None
        self._highest: tuple[int, Point] | None = None
        self._newest: tuple[int, Point] | None = None

    def add(self, point: Point) -> None:
        """Add the next report of the trial."""
        if not math.isfinite(point.value):
            return
        place, self._count = self._count, self._count + 1
        self._newest = place, point
        if self._lowest is None or point.value < self._lowest[1].value:
            self._lowest = self._newest
        if self._highest is None or point.value > self._highest[1].value:
            self._highest = self._newest
        if place % self._every == 0:
            self._kept[place] = point
        if len(self._kept) > MAX_POINTS:
            self._every *= 2
            self._kept = {place: point for place, point in self._kept.items() if place % self._every == 0}

    @property
    def points(self) -> list[Point]:
        """What is kept, at most ``MAX_POINTS`` + 3, in the order of the reports."""
        kept = dict(self._kept)
        kept.update(each for each in (self._lowest, self._highest, self._newest) if each)
        return [kept[place] for place in sorted(kept)]
