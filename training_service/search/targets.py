"""Trials' values, transformed for a Gaussian process, which expects a bell curve."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Candidates for the bend of ``bent``, in parts of the median distance from the best: straight, and ever more
#: like a logarithm.
BENDS = (math.inf, 1.0, 0.1, 0.01)


def bent(losses: Array, bend: float) -> tuple[Array, float]:
    """
    Return ``losses`` (N,) bent and standardised, and the bend's log density.

    Less is better; they are finite and not all the same.

    The bend is t(y) = log(1 + (y - min y) / (bend * median)): differences between bad trials count less than
    those between good ones. The density is the sum of log dt/dy, by which likelihoods of different bends can
    be compared.
    """
    above = losses - np.min(losses)
    above /= np.max(above)
    # Nothing, or next to nothing: more than half are as good as the best.
    median = max(float(np.median(above)), 1e-9)
    moved = above if math.isinf(bend) else np.log1p(above / (bend * median))
    width = float(np.std(moved))
    slope = 0.0 if math.isinf(bend) else -float(np.sum(np.log(bend * median + above)))
    return (moved - np.mean(moved)) / width, slope - len(losses) * math.log(width)
