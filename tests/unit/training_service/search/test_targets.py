"""What trials reported, made fit for a Gaussian process."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_service.search.targets import BENDS, bent

LOSSES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20).filter(
    lambda losses: max(losses) - min(losses) > 1e-6 * max(abs(loss) for loss in losses)
)


@pytest.mark.parametrize("bend", BENDS)
@given(losses=LOSSES)
def test_what_is_bent_has_no_mean_a_width_of_one_and_its_order(bend: float, losses: list[float]) -> None:
    moved, density = bent(np.array(losses), bend)

    assert np.mean(moved) == pytest.approx(0, abs=1e-6)
    assert np.std(moved) == pytest.approx(1)
    assert math.isfinite(density)
    assert np.all(np.diff(moved[np.argsort(losses, kind="stable")]) >= -1e-9)


@pytest.mark.parametrize("bend", BENDS)
def test_neither_units_nor_an_offset_change_anything(bend: float) -> None:
    losses = np.array([3.0, 1.0, 10.0, 1.5])

    assert bent(losses * 1000 - 5, bend)[0] == pytest.approx(bent(losses, bend)[0])


def test_the_stronger_the_bend_the_less_bad_trials_differ() -> None:
    losses = np.array([0.0, 0.1, 1.0, 100.0])

    shares = []
    for bend in BENDS:
        moved, _ = bent(losses, bend)
        shares.append(float((moved[3] - moved[2]) / (moved[3] - moved[0])))

    assert shares == sorted(shares, reverse=True)


def test_many_trials_as_good_as_the_best_do_not_divide_by_nothing() -> None:
    moved, density = bent(np.array([1.0, 1.0, 1.0, 2.0]), 0.01)

    assert np.all(np.isfinite(moved))
    assert math.isfinite(density)
