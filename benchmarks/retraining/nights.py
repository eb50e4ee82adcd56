"""
Simulate nights of retraining, and count false promotions and true ones.

``python -m benchmarks retraining``. The decisions are made by the product's own code. One hold-out and one
champion stand for a whole series, as in ``retrain_digits``; each night brings a challenger that was trained
independently. A row is easy or hard for all models alike: a model has it right with the row's own
probability, 0.9 on average (beta distribution, 9 and 1). A better model makes fewer errors on every row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Figure
from container_training.work.models.looks import Looks, judged
from container_training.work.models.promotion import Contender, PromotionRule
from tests.support.bed.model_versions import make_contender

SEED = 20261123
NIGHTS = 30
SERIES = 10_000
SERIES_OF_BETTER = 1_000
ROWS = 1_000
#: Gains of accuracy that a better model has.
GAINS = (0.01, 0.02, 0.03, 0.05)
_EASY, _HARD = 9.0, 1.0
_ERROR = _HARD / (_EASY + _HARD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """
    Nights at one hold-out.

    :param promoted: the first night with a promotion, from 1 on; ``None`` if there was none.
    :param least_p: smallest p-value of a night.
    """

    promoted: int | None
    least_p: float


def simulate(
    series: int, *, rows: int, gain: float = 0.0, since: int = 1, alpha: float = 0.05, seed: int = SEED
) -> list[Series]:
    """
    Return so many series of ``NIGHTS`` nights; the same arguments return the same.

    :param gain: by how much a better challenger is more accurate than the champion, below 0.1.
    :param since: the first night whose challenger is better.
    """
    random = np.random.default_rng([seed, rows, round(gain * 1000), since])
    return [_series(random, rows, gain, since, alpha) for _ in range(series)]


def _series(random: np.random.Generator, rows: int, gain: float, since: int, alpha: float) -> Series:
    errors = 1 - random.beta(_EASY, _HARD, rows)
    champion = _contender("champion", random.random(rows) >= errors)
    looks, promoted, least_p = Looks(), None, 1.0
    for night in range(1, NIGHTS + 1):
        scale = 1 - gain / _ERROR if night >= since else 1.0
        challenger = _contender(f"night-{night}", random.random(rows) >= errors * scale)
        looks, decision = judged(
            looks, challenger, champion, PromotionRule(alpha=alpha), champion_generation=1
        )
        least_p = min(least_p, decision.p_value or 0.0)
        if decision.promote and promoted is None:
            promoted = night
    return Series(promoted=promoted, least_p=least_p)


def _contender(name: str, right: NDArray[np.bool_]) -> Contender:
    return make_contender(name, (right + ord("0")).astype(np.uint8).tobytes().decode())


def measure() -> list[Figure]:
    """Return the shares of series with a false promotion, and of those with a true one."""
    none_better = simulate(SERIES, rows=ROWS)
    figures = [
        _share(
            f"a false promotion in {NIGHTS} nights, {SERIES} series, {ROWS} rows",
            [each.promoted is not None for each in none_better],
            limit=5.0,
        ),
        _share("the same, if each night spent all of alpha", [each.least_p <= 0.05 for each in none_better]),
    ]
    for rows, gains in ((ROWS, GAINS), (10 * ROWS, GAINS[:2])):
        for gain in gains:
            print(f"{gain:g} better on {rows} rows", flush=True)
            label = f"{gain * 100:g} points better, {rows} rows"
            always = simulate(SERIES_OF_BETTER, rows=rows, gain=gain)
            late = simulate(SERIES_OF_BETTER, rows=rows, gain=gain, since=NIGHTS)
            figures += [
                _share(f"{label}: promoted the first night", [each.promoted == 1 for each in always]),
                _share(
                    f"{label}: promoted in {NIGHTS} nights", [each.promoted is not None for each in always]
                ),
                _share(
                    f"{label}, night {NIGHTS} only: promoted then", [each.promoted == NIGHTS for each in late]
                ),
            ]
    return figures


def _share(name: str, found: list[bool], limit: float | None = None) -> Figure:
    return Figure(name=name, value=round(100 * sum(found) / len(found), 2), unit="%", limit=limit)
