"""A curve of any length in bounded memory."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import pytest

from training_service.search.early_stopping import Point
from training_service.search.kept_curve import MAX_POINTS, KeptCurve


def kept(values: list[float]) -> list[Point]:
    curve = KeptCurve()
    for place, value in enumerate(values):
        curve.add(Point(step=place, value=value, seconds=float(place)))
    return curve.points


def test_a_curve_of_usual_length_is_kept_whole() -> None:
    values = [math.sin(place) for place in range(MAX_POINTS)]

    assert [point.value for point in kept(values)] == values


@pytest.mark.parametrize("length", [MAX_POINTS + 1, 5 * MAX_POINTS, 100_000])
def test_a_long_curve_is_thinned_as_if_it_had_reported_less_often(length: int) -> None:
    steps = [point.step for point in kept([float(place) for place in range(length)])]

    assert MAX_POINTS // 2 <= len(steps) <= MAX_POINTS + 3
    assert (steps[0], steps[-1]) == (0, length - 1)
    assert len({after - before for before, after in pairwise(steps[:-1])}) == 1


def test_the_newest_the_lowest_and_the_highest_are_always_kept() -> None:
    values = [0.5] * 10_001
    values[3333], values[7777], values[-1] = -1.0, 2.0, 0.7

    points = kept(values)

    assert {(3333, -1.0), (7777, 2.0), (10_000, 0.7)} <= {(point.step, point.value) for point in points}
    assert [point.step for point in points] == sorted(point.step for point in points)


def test_the_mean_is_about_that_of_all_reports() -> None:
    values = [1 - math.exp(-place / 5000) for place in range(20_000)]

    assert statistics.fmean(point.value for point in kept(values)) == pytest.approx(
        statistics.fmean(values), abs=0.01
    )


def test_what_is_not_finite_is_left_out() -> None:
    assert [point.value for point in kept([math.nan, 1.0, math.inf, 2.0, -math.inf])] == [1.0, 2.0]
