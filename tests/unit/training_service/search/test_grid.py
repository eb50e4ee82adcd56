"""The assignments of a countable space: all of them, each once, in their order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given

from tests.support.fakes.spaces import below, category, discrete, double, integer, small_values, trees
from training_service.search.grid import Grid
from training_service.search.search_space import Parameter, SearchSpace


def listed(grid: Grid) -> list[dict[str, Any]]:
    return [grid.assignment_at(index) for index in range(grid.size)]


def every(parameters: Sequence[Parameter], chosen: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every active combination, found by trying each value of each parameter in turn."""
    if not parameters:
        yield chosen
        return
    first, rest = parameters[0], parameters[1:]
    on = first.condition
    if on and (on.parent not in chosen or chosen[on.parent] not in on.values):
        yield from every(rest, chosen)
        return
    for value in small_values(first):
        yield from every(rest, {**chosen, first.name: value})


def test_a_space_without_conditions_is_a_product() -> None:
    space = SearchSpace((integer("n", 2, 4), category("c", "a", "b"), discrete("d", 0.5, 2.0)))

    found = [space.key(each) for each in listed(Grid(space))]

    assert found == list(itertools.product((2, 3, 4), ("a", "b"), (0.5, 2.0)))


@given(space=trees(countable=True))
def test_a_grid_is_the_active_combinations_each_once_in_their_order(space: SearchSpace) -> None:
    found = listed(Grid(space))

    assert found == list(every(space.parameters, {}))
    assert len({space.key(each) for each in found}) == len(found)


def test_a_parent_may_have_more_values_than_can_be_counted_through() -> None:
    many, top = integer("many", 0, 2**53), 2**53
    space = SearchSpace((many, below(many, category("c"), 5, top), below(many, integer("n", 1, 2), top)))

    grid = Grid(space)

    assert grid.size == 2**53 + 1 - 2 + 3 + 3 * 2
    assert [grid.assignment_at(index) for index in (4, 5, 7, 8)] == [
        {"many": 4},
        {"many": 5, "c": "a"},
        {"many": 5, "c": "c"},
        {"many": 6},
    ]
    assert grid.assignment_at(grid.size - 1) == {"many": top, "c": "c", "n": 2}
    assert grid.assignment_at(grid.size - 7) == {"many": top - 1}


def test_the_first_that_was_not_seen_is_searched_round_the_end() -> None:
    kind = category("kind", "a", "b")
    grid = Grid(SearchSpace((kind, below(kind, integer("n", 1, 2), "b"))))
    assert listed(grid) == [{"kind": "a"}, {"kind": "b", "n": 1}, {"kind": "b", "n": 2}]

    assert grid.first_unseen([{"kind": "b", "n": 2}], start=2) == {"kind": "a"}
    assert grid.first_unseen([{"kind": "a"}]) == {"kind": "b", "n": 1}
    assert grid.first_unseen(listed(grid)) is None


@pytest.mark.parametrize("values", [("a",), ("a", "b", "c")])
def test_a_double_has_no_grid_wherever_it_stands(values: tuple[str, ...]) -> None:
    kind = category("kind")

    with pytest.raises(ValueError, match="DOUBLE"):
        Grid(SearchSpace((kind, below(kind, double("x"), *values))))
