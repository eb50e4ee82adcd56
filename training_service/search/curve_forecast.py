"""
Forecasts how good a trial will end.

From how completed trials continued after the same place.

A Bayesian linear regression of what a curve still gains on its level and its slopes. That such simple
features of completed trials do better than a parametric law fitted to one curve: Baker, Gupta, Raskar and
Naik, Accelerating Neural Architecture Search using Performance Prediction (2017), section 3; the posterior:
Bishop, Pattern Recognition and Machine Learning (2006), equations 3.49 to 3.51 and exercise 3.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Fewer completed trials that got as far say too little about four coefficients.
MIN_TRIALS = 6
#: Places at which a curve is read off, from its trial's first report to its last; quarters are averaged
#: against the noise.
_PLACES = 16
#: Prior: a gain does not depend on the curve (weight of one trial), and its noise is a quarter of the spread
#: of the ends, worth three trials.
_SLOPE_WEIGHT, _MEAN_WEIGHT = 1.0, 0.1
_NOISE, _NOISE_TRIALS = 0.25, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """
    A curve to calculate with.

    ``places`` (n) increase strictly, ``values`` (n) are finite and better if larger; n >= 1.
    """

    places: Array
    values: Array

    @property
    def end(self) -> float:
        """The last value, which is what the API calls a trial's final metric."""
        return float(self.values[-1])

    @property
    def best(self) -> float:
        """The largest value."""
        return float(self.values.max())


def chance_to_exceed(target: float, track: Track, completed: Sequence[Track]) -> float | None:
    """
    Return the probability, 0 to 1, that ``track`` ends with more than ``target``.

    Pure. Scaling and shifting all values alike changes nothing. It is at least the share of the completed
    trials that gained as much from the same place on as this one has to.

    :param completed: trials that ran to their end; those that ended before ``track`` has got to, or began
        after it, say nothing.
    :return: ``None``: too few of them do, or they all end alike.
    """
    now = float(track.places[-1])
    known = [other for other in completed if other.places[0] < now <= other.places[-1]]
    if len(known) < MIN_TRIALS:
        return None
    at = np.linspace(track.places[0], now, _PLACES)
    shapes = np.array([_shape(each, at) for each in (*known, track)])
    ends = np.array([each.end for each in known])
    spread = float(ends.std())
    largest = max(float(np.abs(shapes).max()), float(np.abs(ends).max()))
    if spread <= 1e-9 * largest:
        return None
    gains = (ends - shapes[:-1, 0]) / spread
    wanted = (target - float(shapes[-1, 0])) / spread
    scales = shapes[:-1].std(axis=0)
    scales[scales <= 1e-9 * largest] = np.inf  # the same for all: says nothing
    rows = np.hstack([np.ones((len(shapes), 1)), (shapes - shapes[:-1].mean(axis=0)) / scales])
    mean, scale, degrees = _predict(rows[:-1], gains, rows[-1])
    # SciPy takes its time and memory: only a service that stops trials early pays for it.
    from scipy.special import stdtr

    # A sudden gain that others have had is no surprise, whatever a normal noise says of it.
    return max(float(stdtr(degrees, (mean - wanted) / scale)), float((gains >= wanted).mean()))


def _shape(track: Track, at: Array) -> Array:
    """Return (level, slope, earlier slope) of a curve read off ``at``."""
    values = np.interp(at, track.places, track.values)
    level, before, start = values[12:].mean(), values[8:12].mean(), values[:8].mean()
    return np.array([level, level - before, before - start])


def _predict(rows: Array, gains: Array, row: Array) -> tuple[float, float, float]:
    """
    Return (mean, scale, degrees of freedom) of the Student-t of a gain.

    At ``row`` (4), by ``rows`` (n, 4) and ``gains`` (n).
    """
    prior = np.diag([_MEAN_WEIGHT] + [_SLOPE_WEIGHT] * (rows.shape[1] - 1))
    precision = prior + rows.T @ rows
    weights = np.linalg.solve(precision, rows.T @ gains)
    degrees = _NOISE_TRIALS + len(gains)
    residual = float(gains @ gains - weights @ precision @ weights)
    noise = (_NOISE_TRIALS * _NOISE**2 + max(residual, 0.0)) / degrees
    variance = noise * (1.0 + float(row @ np.linalg.solve(precision, row)))
    return float(row @ weights), float(np.sqrt(variance)), degrees
