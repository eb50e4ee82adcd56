"""Bayesian optimisation on the unit cube: finished and running trials -> promising points."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc
from threadpoolctl import ThreadpoolController

from training_service.search.acquisition import FANTASIES, ExpectedImprovement
from training_service.search.gaussian_process import Kernel, fit_kernel
from training_service.search.proposal import BEST_TRIALS, other_category, propose
from training_service.search.targets import BENDS, bent
from training_service.search.unit_cube import UnitCube

Array = NDArray[np.float64]
#: Finished trials that the process must know of before it says anything.
LEAST_KNOWN = 3
#: One suggestion in so many looks at another category at the best trial's place, if there is one that was not
#: tried there.
CATEGORY_TURN = 3
#: Least share of different values for a bend: ties come from counting (hits among so many examples), and what
#: lies within a few counts of the best is level ground, not a valley to be drawn out.
DIFFERENT = 0.75
#: The kernel is fitted to so many trials, and conditioned on so many: the time grows with their cube.
FITTED_TRIALS = 160
CONDITIONED_TRIALS = 400
#: One thread: sums in another order end in other bits. The number of threads is the process's, hence the
#: lock.
_ONE_AT_A_TIME = threading.Lock()


def propose_points(
    cube: UnitCube, known: Array, losses: Array, running: Array, seed: int, random: np.random.Generator
) -> Sequence[Array]:
    """
    Return points (D,), the most promising first.

    Pure; the same bits on any number of cores.

    :param known: the points of the finished trials, (N, D).
    :param losses: what they reported, less is better, not a number for the failed, (N,).
    :param running: the points of the running trials, (R, D).
    :param seed: of the study: the space-filling start is one sequence.
    :param random: of this suggestion.
    """
    number = len(known) + len(running)
    finite = np.isfinite(losses)
    if number < start_trials(len(cube.dimensions)) or finite.sum() < LEAST_KNOWN:
        return [_filling(cube, seed, number)]
    if np.ptp(losses[finite]) == 0:
        return [_filling(cube, seed, number)]
    if number % CATEGORY_TURN == 0:
        other = other_category(cube, known[np.nanargmin(losses)], np.concatenate([known, running]))
        if other is not None:
            return [other]
    with _ONE_AT_A_TIME, _threadpools().limit(limits=1, user_api="blas"):
        # A failure is no better than the worst that was seen: it must not be sought again.
        losses = np.where(finite, losses, np.max(losses[finite]))
        chosen = _kept(np.argsort(losses, kind="stable"), CONDITIONED_TRIALS)
        known, losses = known[chosen], losses[chosen]
        best = known[np.argsort(losses, kind="stable")[:BEST_TRIALS]]
        kernel, bend = _fitted(cube, known, losses)
        targets, _ = bent(losses, bend)
        draws = _normal(len(running), random)
        acquisition = ExpectedImprovement(kernel, known, targets, running, draws)
        return propose(cube, acquisition, best, random)


def start_trials(dimensions: int) -> int:
    """
    Return the number of space-filling trials.

    Twice the parameters, but at least 6 and at most 10.
    """
    return min(max(2 * dimensions, 6), 10)


def _filling(cube: UnitCube, seed: int, number: int) -> Array:
    """Return the ``number``-th point of the study's scrambled Sobol sequence."""
    sequence = qmc.Sobol(len(cube.dimensions), rng=np.random.default_rng(seed % 2**64))
    return cube.spread(sequence.random_base2(number.bit_length())[number][None, :])[0]


def _normal(running: int, random: np.random.Generator) -> Array:
    """Return standard normal numbers, (FANTASIES, R), evenly spread."""
    if not running:
        return np.zeros((0, 0))
    uniform = qmc.Sobol(running, rng=random).random(FANTASIES)
    return np.asarray(ndtri(np.clip(uniform, 1e-9, 1 - 1e-9)))


def _kept(order: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """
    Return at most ``limit`` trials in their order.

    Half of them are the best, the rest are spread evenly over the others.
    """
    if len(order) <= limit:
        return np.sort(order)
    best, others = order[: limit // 2], order[limit // 2 :]
    places = np.linspace(0, len(others) - 1, limit - limit // 2).astype(np.intp)
    return np.sort(np.concatenate([best, others[places]]))


def _fitted(cube: UnitCube, known: Array, losses: Array) -> tuple[Kernel, float]:
    chosen = _kept(np.argsort(losses, kind="stable"), FITTED_TRIALS)
    return _fit(known[chosen].tobytes(), losses[chosen].tobytes(), cube.categories.tobytes())


@functools.lru_cache(maxsize=8)
def _fit(points: bytes, losses: bytes, categories: bytes) -> tuple[Kernel, float]:
    """
    Return the most probable kernel and bend.

    They are computed once for all suggestions from the same finished trials.
    """
    kinds = np.frombuffer(categories, dtype=np.bool_)
    where, reported = np.frombuffer(points).reshape(-1, len(kinds)), np.frombuffer(losses)
    found = []
    different = len(np.unique(reported)) / len(reported)
    for bend in BENDS if different >= DIFFERENT else BENDS[:1]:
        targets, density = bent(reported, bend)
        kernel, posterior = fit_kernel(where, targets, kinds)
        found.append((posterior + density, kernel, bend))
    _, kernel, bend = max(found, key=lambda each: each[0])
    return kernel, bend


@functools.cache
def _threadpools() -> ThreadpoolController:
    return ThreadpoolController()
