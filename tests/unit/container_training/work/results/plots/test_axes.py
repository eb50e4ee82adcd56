"""Axes of plots of trials: the parameters' own scales, and round values beside them."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.work.results.plots.axes import PlotAxis, number_axis, parameter_axis
from training_api.job.tuning.search_terms import ParameterKind, ScaleType, SearchParameter


def make_axis(**fields: Any) -> PlotAxis:
    return parameter_axis(SearchParameter(name="p", **fields))


def numbers(low: float, high: float, scale: ScaleType = ScaleType.LINEAR) -> PlotAxis:
    return make_axis(kind=ParameterKind.DOUBLE, low=low, high=high, scale=scale)


@pytest.mark.parametrize(
    ("scale", "middle", "note"),
    [
        (ScaleType.LINEAR, 0.0505, ""),
        (ScaleType.LOG, 0.01, "log scale"),
        (ScaleType.REVERSE_LOG, 0.091, "reverse log scale"),
    ],
)
def test_a_value_lies_where_its_scale_puts_it(scale: ScaleType, middle: float, note: str) -> None:
    axis = numbers(0.001, 0.1, scale)

    assert axis.note == note
    places = [axis.place(str(value)) for value in (0.001, middle, 0.1)]
    assert places == pytest.approx([0.0, 0.5, 1.0])


def test_a_log_scale_that_reaches_zero_is_drawn_linear() -> None:
    axis = numbers(0.0, 1.0, ScaleType.LOG)

    assert (axis.place("0.5"), axis.note) == (0.5, "")


@pytest.mark.parametrize("text", ["x", "", "nan", "11", "-1"])
def test_what_is_not_on_the_axis_has_no_place(text: str) -> None:
    assert numbers(0, 10).place(text) is None


@pytest.mark.parametrize(
    ("low", "high", "scale", "labels"),
    [
        (0, 10, None, ["0", "2", "4", "6", "8", "10"]),
        (16, 256, None, ["16", "50", "100", "150", "200", "256"]),
        (-0.3, 0.3, None, ["-0.3", "-0.2", "0", "0.2", "0.3"]),
        (0.0003, 0.1, ScaleType.LOG, ["0.0003", "0.001", "0.01", "0.1"]),
        (3, 3, None, ["3"]),
    ],
)
def test_ticks_are_the_ends_and_round_values_between(
    low: float, high: float, scale: ScaleType | None, labels: list[str]
) -> None:
    axis = number_axis("p", low, high, scale=scale)

    assert [label for _, label in axis.ticks] == labels
    assert all(0 <= place <= 1 for place, _ in axis.ticks)


def test_discrete_values_are_the_ticks_unless_there_are_too_many() -> None:
    few = make_axis(kind=ParameterKind.DISCRETE, values=(0.1, 0.25, 0.5))
    many = make_axis(kind=ParameterKind.DISCRETE, values=tuple(map(float, range(100))))

    assert [label for _, label in few.ticks] == ["0.1", "0.25", "0.5"]
    assert len(many.ticks) < 9


def test_categories_are_spread_evenly() -> None:
    axis = make_axis(kind=ParameterKind.CATEGORICAL, values=("a", "b", "c"))

    assert [axis.place(name) for name in ("a", "b", "c", "d")] == [0.0, 0.5, 1.0, None]
    assert make_axis(kind=ParameterKind.CATEGORICAL, values=("only",)).place("only") == 0.5
