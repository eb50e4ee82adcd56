"""Whether one model is better than another on the same examples: McNemar's exact test."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedResult:
    """
    How two models did on the same examples.

    :param won: examples that only the challenger had right.
    :param lost: examples that only the champion had right.
    :param p_value: chance of so many wins or more among ``won + lost`` if neither model were better; 0 to 1.
    """

    examples: int
    challenger_correct: int
    champion_correct: int
    won: int
    lost: int
    p_value: float

    @property
    def gain(self) -> float:
        """Accuracy of the challenger less that of the champion, -1 to 1."""
        return (self.challenger_correct - self.champion_correct) / self.examples


def compare(challenger: str, champion: str) -> PairedResult:
    """
    Return McNemar's exact one-sided test of "the challenger is better". Pure.

    Only the examples on which the two differ tell them apart: if neither is better, each is a coin toss, so
    the number of wins is binomial with p = 1/2.

    :param challenger: ``1`` for each example that it had right, ``0`` for each other; N characters.
    :param champion: the same examples in the same order; N characters.
    :raises ValueError: no examples, or not as many of one as of the other.

    Source: Q. McNemar, "Note on the sampling error of the difference between correlated proportions or
    percentages", Psychometrika 12 (1947); T. G. Dietterich, "Approximate Statistical Tests for Comparing
    Supervised Classification Learning Algorithms", Neural Computation 10 (1998). Deviation: exact and
    one-sided, in place of the chi-squared approximation, which needs 25 differences.
    """
    if not challenger or len(challenger) != len(champion):
        raise ValueError(
            f"both models must have answers to the same examples, at least one; got {len(challenger)} and "
            f"{len(champion)}"
        )
    new, old = int(challenger, 2), int(champion, 2)
    won, lost = (new & ~old).bit_count(), (old & ~new).bit_count()
    return PairedResult(
        examples=len(challenger),
        challenger_correct=new.bit_count(),
        champion_correct=old.bit_count(),
        won=won,
        lost=lost,
        p_value=chance_of_wins(won, won + lost),
    )


def chance_of_wins(wins: int, tosses: int) -> float:
    """
    Return the probability of ``wins`` or more heads in ``tosses`` of a fair coin. Pure.

    Exact to 1e-9.
    """
    if wins <= 0:
        return 1.0
    if 2 * wins <= tosses:
        # The smaller tail is the exact one.
        return 1.0 - chance_of_wins(tosses - wins + 1, tosses)
    logarithm_of_half = -tosses * math.log(2.0)
    terms = (
        logarithm_of_half + math.lgamma(tosses + 1) - math.lgamma(heads + 1) - math.lgamma(tosses - heads + 1)
        for heads in range(wins, tosses + 1)
    )
    return min(math.fsum(map(math.exp, terms)), 1.0)
