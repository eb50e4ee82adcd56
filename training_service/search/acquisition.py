"""
The logarithm of the expected improvement, averaged over the results of running trials.

Less the part that noise would hide.

Sources: Ament et al., Unexpected Improvements to Expected Improvement for Bayesian Optimization (2023),
section 3 (the logarithm); Snoek et al., Practical Bayesian Optimization of Machine Learning Algorithms
(2012), section 3.2 (fantasies); Huang et al., Global Optimization of Stochastic Black-Box Systems via
Sequential Kriging Meta-Models (2006), equation 7 (the discount: where the noise is all that is left to learn,
another trial is worth nothing).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, logsumexp

from training_service.search.gaussian_process import GaussianProcess, Kernel

Array = NDArray[np.float64]
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
#: Sets of results that the running trials are imagined to report.
FANTASIES = 32
#: Noise of an imagined result: none, but the matrix must stay invertible.
FANTASY_NOISE = 1e-6


class ExpectedImprovement:
    """
    How much a trial at a point promises to improve on the least target, as a logarithm.

    :param points: the finished trials, (N, D), with their ``targets`` (N,), less is better.
    :param running: the running trials, (R, D).
    :param draws: standard normal numbers, (FANTASIES, R), that make the fantasies.
    """

    def __init__(self, kernel: Kernel, points: Array, targets: Array, running: Array, draws: Array) -> None:
        noise = np.full(len(points), kernel.noise)
        self.process = GaussianProcess(kernel, points, targets[:, None], noise)
        means, _ = self.process.at(points)
        self.best = np.array([float(np.min(means))])
        self.noise = kernel.noise
        if len(running):
            means, covariance = self.process.joint(running)
            values, vectors = np.linalg.eigh(covariance)
            fantasies = means + (vectors * np.sqrt(np.maximum(values, 0.0))) @ draws.T
            self.best = np.minimum(self.best, np.min(fantasies, axis=0))
            together = np.concatenate([np.repeat(targets[:, None], len(draws), axis=1), fantasies])
            noise = np.concatenate([noise, np.full(len(running), FANTASY_NOISE)])
            self.process = GaussianProcess(kernel, np.concatenate([points, running]), together, noise)

    def at(self, points: Array) -> Array:
        """Return the logarithm at ``points`` (M, D): (M,)."""
        means, variances = self.process.at(points)
        deviation = np.sqrt(variances)[:, None]
        each = log_improvement((self.best - means) / deviation) + np.log(deviation)
        discount = np.log1p(-np.sqrt(self.noise / (variances + self.noise)))
        return np.asarray(logsumexp(each, axis=1)) - math.log(each.shape[1]) + discount

    def with_slope(self, point: Array) -> tuple[float, Array]:
        """Return the logarithm and its derivative, (D,), at one point (D,)."""
        means, variance, mean_slopes, variance_slope = self.process.slopes(point)
        deviation = math.sqrt(variance)
        standard = (self.best - means) / deviation
        improvement = log_improvement(standard)
        total = float(logsumexp(improvement))
        shares = np.exp(improvement - total)
        by_mean = -np.exp(log_ndtr(standard) - improvement) / deviation
        by_deviation = np.exp(-0.5 * standard * standard - _LOG_ROOT_2PI - improvement) / deviation
        slope = (shares * by_mean) @ mean_slopes + (shares @ by_deviation) * variance_slope / (2 * deviation)
        share = math.sqrt(self.noise / (variance + self.noise))
        slope += share / (2 * (1 - share) * (variance + self.noise)) * variance_slope
        return total - math.log(len(means)) + math.log(deviation) + math.log1p(-share), slope


def log_improvement(standard: Array) -> Array:
    """
    Return log(pdf(z) + z cdf(z)) of the standard normal distribution.

    Also far below the least float.
    """
    result = np.empty_like(standard)
    high = standard > -1.0
    z = standard[high]
    result[high] = np.log(np.exp(-0.5 * z * z - _LOG_ROOT_2PI) + z * np.exp(log_ndtr(z)))
    z = standard[~high]
    # Far out, 1 + sqrt(pi/2) z erfcx(-z/sqrt 2) cancels to nothing; it is 1/z^2 there.
    tail = np.where(z > -1e4, 1 + math.sqrt(math.pi / 2) * z * erfcx(-z / math.sqrt(2)), 1 / (z * z))
    result[~high] = -0.5 * z * z - _LOG_ROOT_2PI + np.log(np.maximum(tail, 1e-300))
    return result
