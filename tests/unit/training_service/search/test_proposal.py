"""Where the search looks besides the places that the model promises most of."""

from __future__ import annotations

import numpy as np

from tests.support.fakes.spaces import category, double
from training_service.search.proposal import other_category
from training_service.search.search_space import SearchSpace
from training_service.search.unit_cube import UnitCube

CUBE = UnitCube.of(SearchSpace((double("x"), double("y"), category("c", "a", "b", "c"))))
BEST = np.array([0.5, 0.5, 0.0])


def test_the_category_that_was_tried_farthest_from_the_best_trial_is_tried_at_its_place() -> None:
    tried = np.array([BEST, [0.9, 0.9, 1.0], [0.1, 0.2, 2.0], [0.5, 0.8, 2.0]])

    other = other_category(CUBE, BEST, tried)

    assert other is not None
    assert other.tolist() == [0.5, 0.5, 1.0]


def test_a_category_that_was_never_tried_comes_first() -> None:
    other = other_category(CUBE, BEST, np.array([BEST, [0.0, 0.0, 1.0]]))

    assert other is not None
    assert other.tolist() == [0.5, 0.5, 2.0]


def test_categories_that_were_tried_nearby_are_left_alone() -> None:
    tried = np.array([BEST, [0.55, 0.5, 1.0], [0.5, 0.4, 2.0]])

    assert other_category(CUBE, BEST, tried) is None


def test_a_space_of_numbers_has_no_other_category() -> None:
    numbers = UnitCube.of(SearchSpace((double("x"), double("y"))))

    assert other_category(numbers, BEST[:2], BEST[None, :2]) is None
