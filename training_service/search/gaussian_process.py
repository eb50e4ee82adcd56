"""
A Gaussian process: Matern-5/2, one length scale a coordinate, fitted by its mode.

The mode of the posterior.

Sources: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), algorithm 2.1 and equations
4.17, 5.9; the prior of the length scales, which grow with the root of the dimension: Hvarfner et al., Vanilla
Bayesian Optimization Performs Great in High Dimensions (2024), section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.optimize import minimize

Array = NDArray[np.float64]
SQRT5 = math.sqrt(5.0)
#: Least noise variance of standardised targets: keeps the covariance matrix invertible when points come
#: close.
MIN_NOISE = 1e-6
#: Log-normal prior of a length scale in the unit cube: location (plus half the log of the dimension), and
#: width.
LENGTH_PRIOR = (-1.2, 0.7)
#: Log-normal priors of the signal's and the noise's variance, for targets of variance 1.
SIGNAL_PRIOR = (0.0, 1.5)
NOISE_PRIOR = (-9.0, 4.0)
#: Prior variance of the constant mean, for the same.
MEAN_VARIANCE = 1.0
FIT_ITERATIONS = 60


@dataclass(frozen=True, slots=True)
class Kernel:
    """
    The covariance of two points.

    :param lengths: length scales, (D,).
    :param categories: coordinates of which only equality counts, (D,).
    """

    lengths: Array
    signal: float
    noise: float
    categories: NDArray[np.bool_]

    def between(self, left: Array, right: Array) -> Array:
        """
        Return the covariances of points (N, D) and (M, D): (N, M).

        The constant mean's share is included.
        """
        return matern(self.squared_distance(left, right), self.signal) + MEAN_VARIANCE

    def squared_distance(self, left: Array, right: Array) -> Array:
        """
        Return scaled squared distances, (N, M).

        Two different categories are at distance 1 before scaling.
        """
        numbers = ~self.categories
        a, b = left[:, numbers] / self.lengths[numbers], right[:, numbers] / self.lengths[numbers]
        squared = np.zeros((len(left), len(right)))
        for place in range(a.shape[1]):
            difference = a[:, place, None] - b[None, :, place]
            squared += difference * difference
        for category in np.flatnonzero(self.categories):
            squared += (left[:, category, None] != right[None, :, category]) / self.lengths[category] ** 2
        return squared


def matern(squared: Array, signal: float) -> Array:
    """Return the Matern-5/2 covariance at squared distances."""
    distance = np.sqrt(squared) * SQRT5
    return signal * (1 + distance + distance * distance / 3) * np.exp(-distance)


def fit_kernel(points: Array, targets: Array, categories: NDArray[np.bool_]) -> tuple[Kernel, float]:
    """
    Return the most probable kernel for ``targets`` (N,) at ``points`` (N, D).

    And its log posterior. ``targets`` are standardised.

    ``targets`` are standardised.

    Deterministic: the search starts from fixed places.
    """
    problem = _Posterior(points, targets, categories)
    dimensions = points.shape[1]
    middle = LENGTH_PRIOR[0] + 0.5 * math.log(dimensions)
    starts = [(middle, 0.0, -7.0), (middle - 1.2, 0.0, -4.0)]
    bounds = [(math.log(0.01), math.log(100.0))] * dimensions + [(-5.0, 7.0), (math.log(MIN_NOISE), 0.0)]
    found = [
        minimize(
            problem.loss,
            np.array([length] * dimensions + [signal, noise]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": FIT_ITERATIONS, "maxcor": 20, "ftol": 1e-7, "gtol": 1e-3},
        )
        for length, signal, noise in starts
    ]
    best = min(found, key=lambda result: float(result.fun))
    lengths, signal, noise = np.exp(best.x[:-2]), math.exp(best.x[-2]), math.exp(best.x[-1])
    return Kernel(lengths, signal, noise, categories), -float(best.fun)


class _Posterior:
    """The negative log posterior of a kernel's logarithms, with its gradient."""

    def __init__(self, points: Array, targets: Array, categories: NDArray[np.bool_]) -> None:
        self.targets = targets
        unit = Kernel(np.ones(1), 1.0, 0.0, np.zeros(1, dtype=np.bool_))
        self.distances = np.stack(
            [
                (points[:, place, None] != points[None, :, place]).astype(np.float64)
                if categories[place]
                else unit.squared_distance(points[:, place, None], points[:, place, None])
                for place in range(points.shape[1])
            ]
        ).reshape(points.shape[1], -1)
        middle = LENGTH_PRIOR[0] + 0.5 * math.log(points.shape[1])
        dimensions = points.shape[1]
        self.centre = np.array([middle] * dimensions + [SIGNAL_PRIOR[0], NOISE_PRIOR[0]])
        self.width = np.array([LENGTH_PRIOR[1]] * dimensions + [SIGNAL_PRIOR[1], NOISE_PRIOR[1]])

    def loss(self, logarithms: Array) -> tuple[float, Array]:
        count = len(self.targets)
        weights = np.exp(-2 * logarithms[:-2])
        signal, noise = math.exp(logarithms[-2]), math.exp(logarithms[-1])
        distance = np.sqrt(weights @ self.distances) * SQRT5
        decay = signal * np.exp(-distance)
        covariance = (decay * (1 + distance + distance * distance / 3)).reshape(count, count)
        full = covariance + MEAN_VARIANCE
        full.flat[:: count + 1] += noise
        lower, failed = lapack.dpotrf(full, lower=1, clean=1)
        if failed:
            return 1e25, np.zeros_like(logarithms)
        solved = lapack.dpotrs(lower, self.targets, lower=1)[0]
        inverse = lapack.dpotri(lower, lower=1)[0]
        inverse = inverse + np.tril(inverse, -1).T
        slope = np.outer(solved, solved) - inverse
        by_distance = slope.ravel() * decay * (1 + distance) * (5 / 3)
        gradient = np.empty_like(logarithms)
        gradient[:-2] = 0.5 * weights * (self.distances @ by_distance)
        gradient[-2] = 0.5 * float(np.sum(slope * covariance))
        gradient[-1] = 0.5 * noise * float(np.trace(slope))
        away = (logarithms - self.centre) / self.width
        likelihood = -0.5 * float(self.targets @ solved) - float(np.sum(np.log(np.diag(lower))))
        return -(likelihood - 0.5 * float(away @ away)), -(gradient - away / self.width)


class GaussianProcess:
    """
    A kernel conditioned on targets.

    :param targets: (N,) or (N, S) for S sets of targets at the same points.
    """

    def __init__(self, kernel: Kernel, points: Array, targets: Array, noise: Array) -> None:
        self.kernel = kernel
        self.points = points
        covariance = kernel.between(points, points)
        covariance.flat[:: len(points) + 1] += noise
        self.inverse_lower = _inverse_lower(covariance)
        self.weights = self.inverse_lower.T @ (self.inverse_lower @ targets)

    def at(self, points: Array) -> tuple[Array, Array]:
        """Return means, (M,) or (M, S), and variances without noise, (M,), at ``points`` (M, D)."""
        covariance = self.kernel.between(points, self.points)
        projected = covariance @ self.inverse_lower.T
        prior = self.kernel.signal + MEAN_VARIANCE
        variances = np.maximum(prior - np.einsum("ij,ij->i", projected, projected), 1e-12)
        return covariance @ self.weights, variances

    def joint(self, points: Array) -> tuple[Array, Array]:
        """Return the means and the covariance matrix, (M, M), at ``points``."""
        covariance = self.kernel.between(points, self.points)
        projected = covariance @ self.inverse_lower.T
        return covariance @ self.weights, self.kernel.between(points, points) - projected @ projected.T

    def slopes(self, point: Array) -> tuple[Array, float, Array, Array]:
        """
        Return the means (S,), the variance and their derivatives at one point (D,).

        The derivatives are (S, D) and (D,); 0 for categories.
        """
        kernel = self.kernel
        numbers = ~kernel.categories
        squared = kernel.squared_distance(point[None, :], self.points)[0]
        distance = np.sqrt(squared) * SQRT5
        decay = kernel.signal * np.exp(-distance)
        covariance = decay * (1 + distance + distance * distance / 3) + MEAN_VARIANCE
        difference = (point - self.points) / kernel.lengths**2
        difference[:, ~numbers] = 0.0
        slope = -(5 / 3) * (decay * (1 + distance))[:, None] * difference
        projected = self.inverse_lower @ covariance
        variance = max(kernel.signal + MEAN_VARIANCE - float(projected @ projected), 1e-12)
        back = projected @ self.inverse_lower
        return covariance @ self.weights, variance, self.weights.T @ slope, -2 * back @ slope


def _inverse_lower(covariance: Array) -> Array:
    """Return the inverse of the Cholesky factor, with as much added to the diagonal as it takes."""
    jitter = 0.0
    while True:
        matrix = covariance.copy()
        matrix.flat[:: len(matrix) + 1] += jitter
        lower, failed = lapack.dpotrf(matrix, lower=1, clean=1)
        if not failed:
            return np.asarray(lapack.dtrtri(lower, lower=1)[0])
        jitter = max(10 * jitter, 1e-8 * float(covariance[0, 0]))
