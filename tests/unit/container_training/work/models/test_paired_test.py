"""McNemar's test agrees with SciPy's binomial test, and says what it is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from container_training.work.models.paired_test import chance_of_wins, compare


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_chances_are_those_of_scipy(wins: int, losses: int) -> None:
    tosses = wins + losses

    expected = binomtest(wins, tosses, alternative="greater").pvalue if tosses else 1.0

    assert chance_of_wins(wins, tosses) == pytest.approx(expected, rel=1e-6, abs=1e-12)


@given(st.lists(st.sampled_from(["00", "01", "10", "11"]), min_size=1))
def test_only_examples_on_which_the_two_differ_count(pairs: list[str]) -> None:
    new, old = "".join(pair[0] for pair in pairs), "".join(pair[1] for pair in pairs)

    result = compare(new, old)
    padded = compare(f"{new}10", f"{old}10")

    assert (result.won, result.lost) == (pairs.count("10"), pairs.count("01"))
    assert (result.challenger_correct, result.champion_correct) == (new.count("1"), old.count("1"))
    assert (padded.won, padded.lost, padded.p_value) == (result.won, result.lost, result.p_value)
    assert result.gain == pytest.approx((result.won - result.lost) / len(pairs))
    assert compare(old, new).won == result.lost


def test_a_model_beside_itself_is_never_better() -> None:
    assert compare("101", "101").p_value == 1.0


@pytest.mark.parametrize(("new", "old"), [("", ""), ("1", "10")])
def test_models_without_the_same_examples_are_refused(new: str, old: str) -> None:
    with pytest.raises(ValueError, match="same examples"):
        compare(new, old)


def test_among_models_that_are_equally_good_the_false_alarms_are_at_most_alpha() -> None:
    # All 2**n ways in which n fair coins fall, at n = 20: the exact share of p <= 0.05.
    from math import comb

    alarms = sum(comb(20, wins) for wins in range(21) if chance_of_wins(wins, 20) <= 0.05) / 2**20

    assert 0.01 < alarms <= 0.05
