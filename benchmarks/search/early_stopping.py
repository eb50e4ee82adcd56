"""
Measure what stopping trials early saves and costs.

The studies are made up, so that the end of every trial is known.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.report import Figure, median_figure
from training_api.job.tuning.search_terms import Goal
from training_service.search.early_stopping import Curve, Point
from training_service.search.stop_rules import MIN_COMPLETED, MIN_POINTS, should_stop

STUDIES = 10
TRIALS = 60
REPORTS = 40
#: Of the stopped trials, so many per cent may be ones that would have ended among the best tenth of the
#: study; 10 % of trials stopped at random would be. In 50 other studies of each family they were 2.2, 4.0,
#: 4.1 and 5.2 %.
MAX_FALSE_STOPS = 7.0
#: The best end of a study may be worse than without stopping by so much on average; the ends spread over
#: about 0.5.
MAX_LOST = 0.03
MAX_DECISION_SECONDS = 0.02

Values = NDArray[np.float64]
_STEPS = np.arange(1, REPORTS + 1)


def power_law(random: Generator, noise: float = 0.005) -> Values:
    """Return a curve that flattens: the usual one of a network."""
    end, gap, bend = random.beta(4, 2), random.uniform(0.2, 0.6), random.uniform(0.4, 1.2)
    return end - gap * _STEPS**-bend + random.normal(0, noise, REPORTS)


def noisy(random: Generator) -> Values:
    """Return one with noise as large as the differences between good trials."""
    return power_law(random, 0.05)


def crossing(random: Generator) -> Values:
    """
    Return a curve of a family in which slow starters end higher.

    As with small learning rates.
    """
    slowness = random.uniform()
    end = 0.6 + 0.3 * slowness + random.normal(0, 0.05)
    return end * (1 - np.exp(-_STEPS / (2 + 13 * slowness))) + random.normal(0, 0.005, REPORTS)


def plateau(random: Generator) -> Values:
    """
    Return a curve that stays on a plateau and then rises.

    Nothing announces the time and the amount of the rise.
    """
    base, rise, when = random.uniform(0.3, 0.7), random.uniform(0, 0.3), random.integers(3, 30)
    values: Values = (
        base - 0.3 / _STEPS + rise / (1 + np.exp(when - _STEPS)) + random.normal(0, 0.005, REPORTS)
    )
    return values


FAMILIES: Mapping[str, Callable[[Generator], Values]] = {
    "power law": power_law,
    "noisy": noisy,
    "crossing": crossing,
    "plateau": plateau,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """
    One study under a rule.

    :param used: trial time, in per cent of that without a rule.
    :param false_stops: in per cent of the stopped trials: those that would have ended among the study's best
        tenth.
    :param lost: by how much the best end is worse than without a rule.
    """

    used: float
    false_stops: float
    lost: float


def both_rules(curve: Curve, completed: Sequence[Curve]) -> bool:
    """Return the verdict of the service."""
    return should_stop(curve, completed, Goal.MAXIMIZE) is not None


def median_only(curve: Curve, completed: Sequence[Curve]) -> bool:
    """Return the verdict of Vizier's median rule, with the service's minimum numbers."""
    if len(curve) < MIN_POINTS or len(completed) < MIN_COMPLETED:
        return False
    averages = [statistics.fmean(point.value for point in other[: len(curve)]) for other in completed]
    return max(point.value for point in curve) < statistics.median(averages)


def run_study(
    family: Callable[[Generator], Values], seed: int, rule: Callable[[Curve, Sequence[Curve]], bool]
) -> StudyResult:
    """Return what becomes of a study of random trials, one after the other. Pure."""
    random = np.random.default_rng(seed)
    curves = [family(random) for _ in range(TRIALS)]
    ends = np.array([values[-1] for values in curves])
    completed: list[Curve] = []
    kept, stopped, used = [], [], 0
    for values, end in zip(curves, ends, strict=True):
        curve = [Point(step=step, value=float(value), seconds=step) for step, value in enumerate(values, 1)]
        length = next((n for n in range(1, REPORTS) if rule(curve[:n], completed)), REPORTS)
        used += length
        if length < REPORTS:
            stopped.append(end)
        else:
            kept.append(end)
            completed.append(curve)
    among_best = np.sort(ends)[-TRIALS // 10]
    wrong = sum(end >= among_best for end in stopped)
    return StudyResult(
        used=100 * used / (TRIALS * REPORTS),
        false_stops=100 * wrong / len(stopped) if stopped else 0.0,
        lost=float(ends.max() - max(kept)),
    )


def _decision_seconds() -> list[float]:
    """Return how long single decisions take, with 100 completed curves of 100 points."""
    random = np.random.default_rng(0)
    curves = [
        [Point(step=step, value=float(value), seconds=step) for step, value in enumerate(walk, 1)]
        for walk in random.normal(0.01, 0.1, (101, 100)).cumsum(axis=1)
    ]
    samples = []
    for length in range(50, 70):
        started = time.perf_counter()
        should_stop(curves[0][:length], curves[1:], Goal.MAXIMIZE)
        samples.append(time.perf_counter() - started)
    return samples


def measure() -> list[Figure]:
    """
    Return time, false stops and loss for each family.

    Measured with both rules, with the median rule alone, and without any.
    """
    figures = [
        median_figure(
            "one decision, 100 curves of 100 points", _decision_seconds(), limit=MAX_DECISION_SECONDS
        )
    ]
    for name, family in FAMILIES.items():
        figures.append(Figure(name=f"{name}: time used, no stopping", value=100.0, unit="%"))
        for label, rule, is_ours in (("median only", median_only, False), ("both rules", both_rules, True)):
            results = [run_study(family, seed, rule) for seed in range(STUDIES)]
            false_stops = [result.false_stops for result in results]
            figures += [
                median_figure(f"{name}: time used, {label}", [result.used for result in results], unit="%"),
                Figure(
                    name=f"{name}: false stops, mean, {label}",
                    value=round(statistics.fmean(false_stops), 2),
                    unit="%",
                    limit=MAX_FALSE_STOPS if is_ours else None,
                    samples=false_stops,
                ),
                Figure(
                    name=f"{name}: best end lost, mean, {label}",
                    value=round(statistics.fmean(result.lost for result in results), 4),
                    unit="",
                    limit=MAX_LOST if is_ours else None,
                    samples=[result.lost for result in results],
                ),
            ]
    return figures
