"""
Whether to stop a running trial, from its curve and those of completed trials. Pure.

Where a study asks for decay curves, two rules, either of which stops a trial. The median rule: Golovin et
al., Google Vizier: A Service for Black-Box Optimization (2017), section 3.1.2; a trial that starts slowly and
for which the forecast still hopes is spared, which the paper does not do. A forecast of the curve's end: the
same paper's section 3.1.1, with another regression (``curve_forecast.py``). Neither stops a trial whose best
value is at least as good as the best end so far. Where a study asks for the median rule, it decides
alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training_api.job.tuning.search_terms import Goal, Stopping
from training_service.search.curve_forecast import Track, chance_to_exceed
from training_service.search.early_stopping import Curve, StopReason, StopRule

#: [own choice] The least that a rule goes by: completed trials, as Optuna's MedianPruner, and the trial's
#: own reports.
MIN_COMPLETED = 5
MIN_POINTS = 3
#: The forecast stops a trial whose chance to end as the best is smaller, and spares one from the median rule
#: whose chance is at least this. Chosen by benchmarks/search/early_stopping.py, where 2 to 5 % of the stops
#: are false.
MIN_CHANCE, HOPE = 0.01, 0.05
#: Larger values are taken for this one: their squares are no doubles.
_LARGEST = 1e150


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracks:
    """
    A curve made ready to be compared; ``None`` where it has no finite value.

    :param stands_still: its steps are all the same.
    """

    by_step: Track | None
    by_seconds: Track | None
    stands_still: bool


def tracks_of(curve: Curve, goal: Goal) -> Tracks:
    """Return ``curve`` made ready to be compared: of a completed trial that is done once. Pure."""
    sign = _sign(goal)
    return Tracks(
        by_step=_track(curve, sign, by_seconds=False),
        by_seconds=_track(curve, sign, by_seconds=True),
        stands_still=len(curve) > 1 and len({point.step for point in curve}) == 1,
    )


def should_stop(curve: Curve, completed: Sequence[Curve], goal: Goal) -> StopReason | None:
    """Return what ``stop_reason`` does, of curves as they are. Pure."""
    return stop_reason(tracks_of(curve, goal), [tracks_of(each, goal) for each in completed], goal)


def stop_reason(
    curve: Tracks,
    completed: Sequence[Tracks],
    goal: Goal,
    stopping: Stopping = Stopping.DECAY_CURVE,
    *,
    by_seconds: bool = False,
) -> StopReason | None:
    """
    Return why the trial of ``curve`` should be stopped now, or ``None``: it should go on.

    Pure. The answer for MAXIMIZE is that for MINIMIZE of the negated values. Curves are compared by step; by
    seconds if the steps of one of them stand still, as where a trainer does not report any.

    :param completed: the curves of the trials that ran to their end, shadow trials included, in any order.
    :param by_seconds: compare them by seconds in any case.
    """
    sign = _sign(goal)
    by_seconds = by_seconds or any(each.stands_still for each in (curve, *completed))
    track = curve.by_seconds if by_seconds else curve.by_step
    if track is None or len(track.values) < MIN_POINTS:
        return None
    tracks = [found for each in completed if (found := each.by_seconds if by_seconds else each.by_step)]
    if len(tracks) < MIN_COMPLETED:
        return None
    at = f"{track.places[-1]:.6g} s" if by_seconds else f"step {track.places[-1]:.0f}"
    if stopping is Stopping.MEDIAN:
        return _median_rule(track, tracks, sign, at)
    best_end = max(each.end for each in tracks)
    if track.best >= best_end:
        return None
    chance = chance_to_exceed(best_end, track, tracks)
    if chance is not None and chance >= HOPE:
        return None
    if chance is not None and chance < MIN_CHANCE:
        return StopReason(
            rule=StopRule.FORECAST,
            text=f"with {sign * track.end:.6g} at {at}, its chance to end better than the best, "
            f"{sign * best_end:.6g}, is {chance:.1%}, less than {MIN_CHANCE:.0%}",
        )
    return _median_rule(track, tracks, sign, at)


def _median_rule(track: Track, tracks: Sequence[Track], sign: float, at: str) -> StopReason | None:
    now = track.places[-1]
    averages = [each.values[each.places <= now].mean() for each in tracks if each.places[0] <= now]
    if len(averages) < MIN_COMPLETED:
        return None
    median = float(np.median(averages))
    if track.best >= median:
        return None
    return StopReason(
        rule=StopRule.MEDIAN,
        text=f"its best value by {at}, {sign * track.best:.6g}, is worse than {sign * median:.6g}, "
        f"the median of the averages of {len(averages)} completed trials by then",
    )


def _sign(goal: Goal) -> float:
    return -1.0 if goal is Goal.MINIMIZE else 1.0


def _track(curve: Curve, sign: float, *, by_seconds: bool) -> Track | None:
    """Return the curve to calculate with, or ``None`` if it has no finite value."""
    reports = {
        point.seconds if by_seconds else float(point.step): sign * point.value
        for point in curve
        if math.isfinite(point.value)
    }
    if not reports:
        return None
    places = np.array(list(reports))
    order = np.argsort(places)
    values = np.clip(np.array(list(reports.values())), -_LARGEST, _LARGEST)
    return Track(places=places[order], values=values[order])
