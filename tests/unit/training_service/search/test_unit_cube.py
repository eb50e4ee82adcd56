"""The search space as the search sees it: coordinates, scales and neighbours."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.spaces import LOG_SCALES, category, discrete, double, integer, parameters, spaces
from training_api.job.tuning.search_terms import ParameterKind, ScaleType
from training_service.search.search_space import Parameter, SearchSpace
from training_service.search.unit_cube import Dimension, UnitCube

UNIFORM = st.floats(0, 1)


@given(item=parameters("p"), uniform=UNIFORM)
def test_a_value_lies_at_its_coordinate(item: Parameter, uniform: float) -> None:
    dimension = Dimension(item)
    value = dimension.value(float(dimension.spread(np.array([uniform]))[0]))

    there = dimension.value(dimension.coordinate(value))

    if isinstance(value, float) and item.kind is ParameterKind.DOUBLE:
        # The reverse log scale is measured from the top: near the bottom only the top's digits count.
        digits = 1e-9 * (
            item.high if item.scale is ScaleType.REVERSE_LOG else max(abs(item.low), abs(item.high))
        )
        assert there == pytest.approx(value, rel=1e-9, abs=0 if item.scale is ScaleType.LOG else digits)
    else:
        assert there == value


@pytest.mark.parametrize("scale", LOG_SCALES)
def test_ends_with_the_same_logarithm_are_one_point(scale: ScaleType) -> None:
    low, high = 1e-9, math.nextafter(1e-9, 1)
    dimension = Dimension(double("p", low, high, scale))

    assert dimension.coordinate(low) == dimension.coordinate(high) == 0.5
    assert low <= dimension.value(0.5) <= high


@given(item=parameters("p"), uniform=UNIFORM, limit=st.integers(2, 20))
def test_neighbours_are_other_values(item: Parameter, uniform: float, limit: int) -> None:
    dimension = Dimension(item)
    if dimension.is_continuous:
        return
    here = float(dimension.spread(np.array([uniform]))[0])

    values = [dimension.value(float(at)) for at in dimension.neighbours(here, limit)]

    assert len(set(values)) == len(values) <= limit
    assert len(values) == (item.size or 0) - 1 or len(values) >= limit // 2
    assert all(item.contains(value) and value != dimension.value(here) for value in values)


@pytest.mark.parametrize(
    ("scale", "middle"),
    [
        (ScaleType.NONE, 500.5),
        (ScaleType.LINEAR, 500.5),
        (ScaleType.LOG, 1000**0.5),
        (ScaleType.REVERSE_LOG, 1001 - 1000**0.5),
    ],
)
def test_half_of_the_interval_lies_below_the_scales_middle(scale: ScaleType, middle: float) -> None:
    assert Dimension(double("x", 1.0, 1000.0, scale)).value(0.5) == pytest.approx(middle)


@pytest.mark.parametrize("scale", [*LOG_SCALES, ScaleType.NONE])
def test_the_ends_of_a_scale_are_the_ends_of_the_range(scale: ScaleType) -> None:
    dimension = Dimension(double("x", 1e-6, 1e3, scale))

    assert dimension.value(0.0) == pytest.approx(1e-6, abs=1e-12)
    assert dimension.value(1.0) == pytest.approx(1e3)


def test_the_first_and_the_last_integer_are_as_likely_as_the_others() -> None:
    dimension = Dimension(integer("n", 1, 4))

    values = [dimension.value(float(at)) for at in dimension.spread((np.arange(400) + 0.5) / 400)]

    assert [values.count(number) for number in (1, 2, 3, 4)] == [100] * 4


@given(space=spaces(), data=st.data())
def test_a_point_that_was_snapped_stays_where_it_is(space: SearchSpace, data: st.DataObject) -> None:
    cube = UnitCube.of(space)
    points = cube.spread(np.array([[data.draw(UNIFORM) for _ in space.parameters]]))

    snapped = cube.snap(points)

    assert cube.snap(snapped) == pytest.approx(snapped, abs=1e-9)
    assert space.contains(cube.assignment(snapped[0]))


def test_assignments_become_points_in_their_order() -> None:
    cube = UnitCube.of(SearchSpace((double("x", 0.0, 2.0), category("c", "a", "b"))))

    points = cube.points([{"x": 1.0, "c": "b"}, {"x": 0.0, "c": "a"}])

    assert points.tolist() == [[0.5, 1.0], [0.0, 0.0]]
    assert cube.points([]).shape == (0, 2)
    assert cube.categories.tolist() == [False, True]


def test_few_values_are_each_as_likely() -> None:
    uniform = (np.arange(300) + 0.5) / 300
    for parameter in (category("c", "a", "b", "c"), discrete("d", 0.1, 0.2, 16.0)):
        dimension = Dimension(parameter)

        values = [dimension.value(float(at)) for at in dimension.spread(uniform)]

        assert [values.count(value) for value in parameter.values] == [100] * 3


def test_a_range_of_one_point_is_its_point() -> None:
    dimension = Dimension(double("x", 3.0, 3.0))

    assert [dimension.value(at) for at in (0.0, 0.5, 1.0)] == [3.0] * 3
    assert dimension.coordinate(3.0) == 0.5


def test_the_widest_range_has_a_middle() -> None:
    dimension = Dimension(double("x", -1e308, 0.7e308))

    assert np.isfinite(dimension.value(0.5))
    assert dimension.coordinate(dimension.value(0.25)) == pytest.approx(0.25)
