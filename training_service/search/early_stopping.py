"""
Whether a running trial is worth its time, from its curve and those of the study's completed trials. Pure.

Two rules, either of which stops a trial. The median rule: Golovin et al., Google Vizier: A Service for Black-Box Optimization
(2017), section 3.1.2; a trial that starts slowly and for which the forecast still hopes is spared, which the paper does not do. A forecast of
the curve's end: the same paper's section 3.1.1, with another regression (``curve_forecast.py``). Neither stops a trial whose
best value is at least as good as the best end so far.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from training_api.dialects.ml_v1.resources import Goal
from training_service.search.curve_forecast import Track, chance_to_exceed
from training_service.search.wilson import wilson_interval

#: [own choice] The least that a rule goes by: completed trials, as Optuna's MedianPruner, and the trial's own reports.
MIN_COMPLETED = 5
MIN_POINTS = 3
#: The forecast stops a trial whose chance to end as the best is smaller, and spares one from the median rule whose chance is
#: at least this. Chosen by benchmarks/early_stopping.py, where 2 to 5 % of the stops are false.
MIN_CHANCE, HOPE = 0.01, 0.05
#: Of the trials that a rule would stop, so many run on, to tell what the rules cost.
SHADOW_SHARE = 0.05
#: Shadow trials that end among so many of the best, at least one, were false stops.
TOP_SHARE = 0.1
#: Larger values are taken for this one: their squares are no doubles.
_LARGEST = 1e150


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """
    One report of a trial.

    :param value: any float; NaN and the infinities say nothing and are passed over.
    :param seconds: since the trial started.
    """

    step: int
    value: float
    seconds: float


#: The reports of a trial in their order. A trial that starts again repeats steps; its later report of a step holds.
Curve = Sequence[Point]


class StopRule(StrEnum):
    """The rule that stops a trial."""

    MEDIAN = "MEDIAN"
    FORECAST = "FORECAST"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReason:
    """Why a trial is stopped: ``text`` is a clause with the figures, and what ``str`` gives."""

    rule: StopRule
    text: str

    def __str__(self) -> str:
        return self.text


class Ending(StrEnum):
    """How a trial came to its end."""

    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"  #: a rule ended it
    SHADOW = "SHADOW"  #: a rule would have ended it, and it ran on to its end


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """
    A trial that has ended.

    :param final_value: its final metric; ``None``: it has none.
    :param seconds: how long it ran, at least 0.
    """

    ending: Ending
    seconds: float
    final_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyStoppingReport:
    """
    What early stopping did in a study.

    :param trials: those that ended, however.
    :param saved_seconds: estimated; of one slot, trials in parallel are added up.
    :param saved_share: of the time that all trials would have taken, 0 to 1.
    :param shadows: trials that a rule would have stopped and that ran on.
    :param false_stops: those of them that ended among the best.
    :param false_stop_interval: of the rate, with 95 % confidence.
    """

    trials: int
    stopped: int
    saved_seconds: float
    saved_share: float
    shadows: int
    false_stops: int
    false_stop_interval: tuple[float, float]

    @property
    def false_stop_rate(self) -> float | None:
        """The estimated share of the stops that were wrong; ``None`` without a shadow trial."""
        return self.false_stops / self.shadows if self.shadows else None

    @property
    def text(self) -> str:
        """A sentence for the log."""
        saved = f"{self.stopped} of {self.trials} trials were stopped early, which saved about "
        saved += f"{self.saved_seconds:.0f} s, {self.saved_share:.0%} of the time of all trials; "
        if self.false_stop_rate is None:
            return (
                f"{saved}no trial that was to be stopped ran on, so that the rate of false stops is not known"
            )
        low, high = self.false_stop_interval
        return (
            f"{saved}of {self.shadows} that were to be stopped and ran on, {self.false_stops} ended among the best: "
            f"an estimated false-stop rate of {self.false_stop_rate:.0%} ({low:.0%} to {high:.0%} with 95 % confidence)"
        )


def should_stop(curve: Curve, completed: Sequence[Curve], goal: Goal) -> StopReason | None:
    """
    Return why the trial of ``curve`` should be stopped now, or ``None``: it should go on.

    Pure. The answer for MAXIMIZE is that for MINIMIZE of the negated values. Curves are compared by step; by seconds if the
    steps of one of them stand still, as where a trainer does not report any.

    :param completed: the curves of the trials that ran to their end, shadow trials included, in any order.
    """
    sign = -1.0 if goal is Goal.MINIMIZE else 1.0
    by_seconds = any(_stands_still(each) for each in (curve, *completed))
    track = _track(curve, sign, by_seconds=by_seconds)
    if track is None or len(track.values) < MIN_POINTS:
        return None
    tracks = [found for each in completed if (found := _track(each, sign, by_seconds=by_seconds))]
    if len(tracks) < MIN_COMPLETED:
        return None
    best_end = max(each.end for each in tracks)
    if track.best >= best_end:
        return None
    at = f"{track.places[-1]:.6g} s" if by_seconds else f"step {track.places[-1]:.0f}"
    chance = chance_to_exceed(best_end, track, tracks)
    if chance is not None and chance >= HOPE:
        return None
    if chance is not None and chance < MIN_CHANCE:
        return StopReason(
            rule=StopRule.FORECAST,
            text=f"with {sign * track.end:.6g} at {at}, its chance to end better than the best, {sign * best_end:.6g}, "
            f"is {chance:.1%}, less than {MIN_CHANCE:.0%}",
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
        text=f"its best value by {at}, {sign * track.best:.6g}, is worse than {sign * median:.6g}, the median of the "
        f"averages of {len(averages)} completed trials by then",
    )


def is_shadow(seed: int, trial_number: int) -> bool:
    """
    Whether the trial runs to its end although a rule would stop it: ``SHADOW_SHARE`` of all trials, the same on each call.

    Pure, and the same on every machine.
    """
    digest = hashlib.blake2b(f"{seed}:{trial_number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < SHADOW_SHARE * 2**64


def early_stopping_report(trials: Sequence[TrialOutcome], goal: Goal) -> EarlyStoppingReport:
    """
    Return what early stopping saved in a study, and how often it is likely to have been wrong.

    Pure. A stopped trial is taken to have saved what the completed trials that are longer than it are longer on average; nothing if
    none is. A shadow trial is a false stop if its end is among the best tenth of all ends, at least one.

    :param trials: those that have ended, but for failed and cancelled ones.
    """
    stopped = [trial for trial in trials if trial.ending is Ending.STOPPED]
    whole = [trial for trial in trials if trial.ending is not Ending.STOPPED]
    shadows = [trial for trial in whole if trial.ending is Ending.SHADOW]
    saved = sum(_saved_seconds(trial, whole) for trial in stopped)
    run = sum(trial.seconds for trial in trials)
    sign = -1.0 if goal is Goal.MINIMIZE else 1.0
    ends = sorted(
        (sign * end for trial in whole if (end := _finite(trial.final_value)) is not None), reverse=True
    )
    places = math.ceil(TOP_SHARE * len(ends))
    false_stops = sum(
        (end := _finite(trial.final_value)) is not None and sign * end >= ends[places - 1]
        for trial in shadows
    )
    return EarlyStoppingReport(
        trials=len(trials),
        stopped=len(stopped),
        saved_seconds=saved,
        saved_share=saved / (run + saved) if saved > 0 else 0.0,
        shadows=len(shadows),
        false_stops=false_stops,
        false_stop_interval=wilson_interval(false_stops, len(shadows)),
    )


def _saved_seconds(trial: TrialOutcome, whole: Sequence[TrialOutcome]) -> float:
    longer = [other.seconds - trial.seconds for other in whole if other.seconds > trial.seconds]
    return sum(longer) / len(longer) if longer else 0.0


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _stands_still(curve: Curve) -> bool:
    return len(curve) > 1 and len({point.step for point in curve}) == 1


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
