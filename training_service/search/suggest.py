"""
The next trial of a study, as a pure function of what is known.

So a restart of the service makes no difference.

The default is Bayesian optimisation: a space-filling start, then a Gaussian process and the expected
improvement, which know of the running trials (docs/adr/0012).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_api.job.tuning.search_terms import Goal, SearchAlgorithm
from training_service.search.grid import Grid
from training_service.search.search_space import Assignment, SearchSpace
from training_service.search.unit_cube import UnitCube

Array = NDArray[np.float64]
#: Draws from a space with a DOUBLE before a suggestion may be one that was tried.
DRAWS = 100
#: What is farther from 0 counts as that far.
LARGEST = 1e100


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """
    A finished trial.

    ``value``: its last report; ``None``, or a number that is not finite: it failed.
    """

    assignment: Assignment
    value: float | None


def suggest(
    space: SearchSpace,
    history: Sequence[Observation],
    running: Sequence[Assignment],
    seed: int,
    *,
    goal: Goal,
    algorithm: SearchAlgorithm,
) -> dict[str, float | int | str] | None:
    """
    Return the assignment of the next trial.

    ``None`` if a grid search has tried or is trying every one.

    Pure: the same arguments give the same assignment, bit by bit, in any process on the same machine. No
    assignment is suggested twice while the space has others. Trials outside the space (a resumed study's, of
    another space) are left aside.

    :param history: the finished trials, in an order that stays the same.
    :param running: the assignments of the trials that have not reported yet, likewise.
    :param seed: the study's; it stays the same from one suggestion to the next.
    :raises ValueError: a grid search over a DOUBLE, or a Bayesian one with conditional parameters.
    """
    history = [trial for trial in history if space.contains(trial.assignment)]
    running = [assignment for assignment in running if space.contains(assignment)]
    seen = [*(trial.assignment for trial in history), *running]
    if algorithm is SearchAlgorithm.GRID:
        return Grid(space).first_unseen(seen)
    random = np.random.default_rng([seed % 2**64, len(seen)])
    cube = UnitCube.of(space)
    points: Sequence[Array] = ()
    if algorithm is not SearchAlgorithm.RANDOM:
        if space.is_tree:
            raise ValueError("a Bayesian search has no conditional parameters")
        # SciPy takes half a second and 60 MiB: only a service that tunes pays for it.
        from training_service.search.bayesian import propose_points

        known = cube.points([trial.assignment for trial in history])
        points = propose_points(cube, known, _losses(history, goal), cube.points(running), seed, random)
    return _first_new(space, cube, points, seen, random)


def _losses(history: Sequence[Observation], goal: Goal) -> Array:
    """
    Return what is minimised, (N,); NaN for a failed trial.

    No value is larger than can be added up.
    """
    sign = 1.0 if goal is Goal.MINIMIZE else -1.0
    values = [math.nan if trial.value is None else sign * trial.value for trial in history]
    losses = np.array(values, dtype=np.float64)
    return np.where(np.isfinite(losses), np.clip(losses, -LARGEST, LARGEST), np.nan)


def _first_new(
    space: SearchSpace,
    cube: UnitCube,
    points: Sequence[Array],
    seen: Sequence[Assignment],
    random: np.random.Generator,
) -> dict[str, float | int | str]:
    """Return the assignment of the first unseen point, or else of a random unseen point."""
    taken = {space.key(assignment) for assignment in seen}
    for point in points:
        assignment = cube.assignment(point)
        if space.key(assignment) not in taken:
            return assignment
    for _ in range(DRAWS):
        assignment = cube.assignment(cube.spread(random.random((1, len(cube.dimensions))))[0])
        if space.key(assignment) not in taken:
            return assignment
    if space.is_countable:
        # A countable space that is nearly used up: walk to the next free place, or begin again.
        grid = Grid(space)
        return grid.first_unseen(seen, start=int(random.integers(2**62)) % grid.size) or assignment
    return assignment
