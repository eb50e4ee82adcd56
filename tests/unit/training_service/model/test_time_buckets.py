from __future__ import annotations

import pytest

from training_service.model.time_buckets import Buckets


def test_last_bucket_ends_now() -> None:
    buckets = Buckets(start_us=0, end_us=25_000_000, step_us=10_000_000)

    assert buckets.times == [0, 10, 20]
    assert buckets.lengths_us == [10_000_000, 10_000_000, 5_000_000]


def test_buckets_of_a_window_begin_at_whole_multiples_so_that_they_stay() -> None:
    earlier = Buckets.until(1_000_003_000_000, 3_600, 600)
    later = Buckets.until(1_000_130_000_000, 3_600, 600)

    assert earlier.times == later.times
    assert earlier.start_us % 600_000_000 == 0
    assert earlier.start_us <= 1_000_003_000_000 - 3_600_000_000


@pytest.mark.parametrize(("start", "end", "step"), [(10, 10, 5), (10, 9, 5), (0, 10, 0)])
def test_buckets_need_a_time_to_be_of(start: int, end: int, step: int) -> None:
    with pytest.raises(ValueError, match="end_us must be after start_us"):
        Buckets(start_us=start, end_us=end, step_us=step)
