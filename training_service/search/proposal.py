"""
Finds the maximum of the acquisition.

Many points are evaluated, and the best of them improved, coordinate by coordinate if needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from training_service.search.acquisition import ExpectedImprovement
from training_service.search.unit_cube import UnitCube

Array = NDArray[np.float64]
#: Places looked at anywhere, and near each of the best trials.
ANYWHERE = 768
NEARBY = 96
BEST_TRIALS = 4
#: Of those, how many are improved, for how many steps.
STARTS = 6
STEPS = 40
#: Other values of a countable parameter that are tried in one sweep.
NEIGHBOURS = 16
SWEEPS = 2
#: A category counts as tried at a place if a trial was as near to it, in parts of the root of the number of
#: other coordinates.
NEAR = 0.2


def propose(
    cube: UnitCube, acquisition: ExpectedImprovement, best: Array, random: np.random.Generator
) -> list[Array]:
    """
    Return points of the cube, the most promising first.

    ``best``: the best trials, (B, D), best first.
    """
    candidates = cube.snap(_candidates(cube, best, random))
    values = acquisition.at(candidates)
    starts = _spaced(candidates, values)
    improved = [_improve(cube, acquisition, start) for start in starts]
    improved.sort(key=lambda found: -found[0])
    rest = candidates[np.argsort(-values, kind="stable")]
    return [point for _, point in improved] + list(rest)


def other_category(cube: UnitCube, best: Array, tried: Array) -> Array | None:
    """
    Return the best trial, (D,), with a category that was never tried near there.

    ``None``: all were.

    One bad trial of a category elsewhere convinces the process that the category is bad everywhere, when the
    other categories have taught it that numbers matter little. ``tried``: finished and running trials, (N,
    D).
    """
    numbers = ~cube.categories
    gaps = np.sqrt(np.sum((tried[:, numbers] - best[numbers]) ** 2, axis=1)) / math.sqrt(
        max(int(numbers.sum()), 1)
    )
    found, widest = None, NEAR
    for place in np.flatnonzero(cube.categories):
        for value in range(len(cube.dimensions[place].parameter.values)):
            gap = float(np.min(gaps[tried[:, place] == value], initial=math.inf))
            if gap > widest:
                found, widest = best.copy(), gap
                found[place] = value
    return found


def _candidates(cube: UnitCube, best: Array, random: np.random.Generator) -> Array:
    dimensions = len(cube.dimensions)
    anywhere = cube.spread(random.random((ANYWHERE, dimensions)))
    groups = [anywhere]
    for trial in best[:BEST_TRIALS]:
        width = 10.0 ** random.uniform(-3.0, -0.5, (NEARBY, 1))
        moved = trial + width * random.standard_normal((NEARBY, dimensions))
        moved = np.where(cube.categories, anywhere[random.integers(ANYWHERE, size=NEARBY)], moved)
        # Some coordinates stay: on average three change, and one at least.
        change = random.random((NEARBY, dimensions)) < max(3.0 / dimensions, 0.2)
        change[np.arange(NEARBY), random.integers(dimensions, size=NEARBY)] = True
        groups.append(np.where(change, moved, trial))
    return np.clip(np.concatenate(groups), 0.0, np.where(cube.categories, np.inf, 1.0))


def _spaced(candidates: Array, values: Array) -> Array:
    """Return the best candidates, half of them from anywhere, half from near the best trials."""
    anywhere = np.argsort(-values[:ANYWHERE], kind="stable")[: STARTS // 2]
    near = ANYWHERE + np.argsort(-values[ANYWHERE:], kind="stable")[: STARTS - STARTS // 2]
    return candidates[np.concatenate([anywhere, near])]


def _improve(cube: UnitCube, acquisition: ExpectedImprovement, start: Array) -> tuple[float, Array]:
    """Return the value and the place of a local maximum that starts at ``start``."""
    free = np.array([not item.is_category and (item.parameter.size or 99) > 8 for item in cube.dimensions])
    countable = [place for place, item in enumerate(cube.dimensions) if not item.is_continuous]
    point = start
    value = float(acquisition.at(point[None, :])[0])
    for _ in range(SWEEPS if countable else 1):
        before = value
        if free.any():
            moved = cube.snap(_climb(acquisition.with_slope, point, free)[None, :])
            found = float(acquisition.at(moved)[0])
            if found > value:
                point, value = moved[0], found
        for place in countable:
            point, value = _best_neighbour(cube, acquisition, point, value, place)
        if value <= before:
            break
    return value, point


def _climb(function: Callable[[Array], tuple[float, Array]], start: Array, free: NDArray[np.bool_]) -> Array:
    def loss(moving: Array) -> tuple[float, Array]:
        point = start.copy()
        point[free] = moving
        value, slope = function(point)
        return -value, -slope[free]

    result = minimize(
        loss,
        start[free],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * int(free.sum()),
        options={"maxiter": STEPS, "ftol": 1e-6},
    )
    end = start.copy()
    end[free] = result.x
    return end


def _best_neighbour(
    cube: UnitCube, acquisition: ExpectedImprovement, point: Array, value: float, place: int
) -> tuple[Array, float]:
    others = cube.dimensions[place].neighbours(float(point[place]), NEIGHBOURS)
    if not len(others):
        return point, value
    points = np.repeat(point[None, :], len(others), axis=0)
    points[:, place] = others
    values = acquisition.at(points)
    best = int(np.argmax(values))
    return (points[best], float(values[best])) if values[best] > value else (point, value)
