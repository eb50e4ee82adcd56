"""How sure a share is that was counted in few tries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_service.search.wilson import wilson_interval


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [
        (0, 0, 0.0, 1.0),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), Table I
        (15, 148, 0.0624, 0.1605),  # the same
    ],
)
def test_the_interval_is_that_of_the_tables(hits: int, tries: int, low: float, high: float) -> None:
    assert wilson_interval(hits, tries) == pytest.approx((low, high), abs=1e-4)


@given(tries=st.integers(1, 10**6), share=st.floats(0, 1))
def test_the_share_itself_lies_within_and_so_do_the_ends(tries: int, share: float) -> None:
    hits = round(share * tries)

    low, high = wilson_interval(hits, tries)

    assert 0 <= low <= hits / tries <= high <= 1


@given(tries=st.integers(1, 1000), hits=st.integers(0, 1000))
def test_misses_are_hits_from_the_other_side(tries: int, hits: int) -> None:
    hits = min(hits, tries)

    low, high = wilson_interval(hits, tries)

    assert wilson_interval(tries - hits, tries) == pytest.approx((1 - high, 1 - low))


def test_more_tries_make_it_surer() -> None:
    widths = [high - low for low, high in (wilson_interval(tries // 2, tries) for tries in (2, 20, 200))]

    assert widths == sorted(widths, reverse=True)
