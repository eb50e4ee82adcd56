from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.fleet.time_buckets import Buckets, Interval, levels, means

TEN = Buckets(start=0, end=100, seconds=10)
_INTERVALS = st.lists(
    st.tuples(
        st.integers(-50, 150).map(float), st.integers(-50, 150).map(float), st.integers(0, 8).map(float)
    ),
    max_size=30,
)
_BUCKETS = st.builds(
    lambda start, length, seconds: Buckets(start=start, end=start + length, seconds=seconds),
    st.integers(-20, 20),
    st.integers(1, 120),
    st.integers(1, 40),
)


def level_at(intervals: list[Interval], moment: float) -> float:
    return sum(amount for start, end, amount in intervals if start <= moment < end)


def test_level_of_two_jobs_side_by_side_is_their_sum() -> None:
    found = levels([(0, 20, 4), (15, 25, 2)], TEN)

    assert list(found.integral[:4]) == [40, 50, 10, 0]
    assert list(found.peak[:4]) == [4, 6, 2, 0]


def test_jobs_that_follow_each_other_at_once_do_not_add_up() -> None:
    found = levels([(0, 5, 4), (5, 10, 4)], TEN)

    assert found.peak[0] == 4
    assert found.integral[0] == 40


def test_what_lasts_no_time_or_ends_before_it_begins_counts_nothing() -> None:
    found = levels([(5, 5, 4), (9, 3, 4), (-10, 0, 4), (100, 200, 4)], TEN)

    assert set(found.integral) == {0.0}
    assert set(found.peak) == {0.0}


def test_last_bucket_ends_now() -> None:
    buckets = Buckets(start=0, end=25, seconds=10)

    assert buckets.times == [0, 10, 20]
    assert buckets.lengths == [10, 10, 5]
    assert means(levels([(0, 25, 3)], buckets), buckets) == [3, 3, 3]


def test_buckets_of_a_window_begin_at_whole_multiples_so_that_they_stay() -> None:
    earlier = Buckets.until(1_000_003.0, 3_600, 600)
    later = Buckets.until(1_000_130.0, 3_600, 600)

    assert earlier.times == later.times
    assert earlier.start % 600 == 0
    assert earlier.start <= 1_000_003.0 - 3_600


@pytest.mark.parametrize(("start", "end", "seconds"), [(10, 10, 5), (10, 9, 5), (0, 10, 0)])
def test_buckets_need_a_time_to_be_of(start: float, end: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="end must be after start"):
        Buckets(start=start, end=end, seconds=seconds)


@given(_INTERVALS, _BUCKETS)
def test_all_buckets_together_have_all_that_the_intervals_have(
    intervals: list[Interval], buckets: Buckets
) -> None:
    found = levels(intervals, buckets)

    whole = sum(
        max(min(end, buckets.end) - max(start, buckets.start), 0.0) * amount
        for start, end, amount in intervals
        if end > start
    )
    assert math.isclose(sum(found.integral), whole, abs_tol=1e-6)
    assert len(found.integral) == len(found.peak) == len(buckets.times)


@given(_INTERVALS, _BUCKETS)
def test_each_bucket_is_the_sum_and_the_highest_of_its_moments(
    intervals: list[Interval], buckets: Buckets
) -> None:
    # All bounds are whole numbers, so that the level is the same during each second.
    found = levels(intervals, buckets)

    for place, (time, length) in enumerate(zip(buckets.times, buckets.lengths, strict=True)):
        moments = [level_at(intervals, time + second) for second in range(int(length))]
        assert math.isclose(found.integral[place], sum(moments), abs_tol=1e-6)
        assert found.peak[place] == max(moments)
        assert means(found, buckets)[place] <= found.peak[place] + 1e-9
