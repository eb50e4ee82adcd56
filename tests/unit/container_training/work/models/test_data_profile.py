"""How data are distributed, and how far other data are from that."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from container_training.work.models.data_profile import _chi_squared, drift_from, profile_of, psi


def test_drift_of_one_column_is_found_and_named() -> None:
    rng = random.Random(1)
    before = {"x": [rng.gauss(0, 1) for _ in range(2000)], "y": [rng.random() for _ in range(2000)]}
    after = {"x": [rng.gauss(1, 1) for _ in range(2000)], "y": [rng.random() for _ in range(2000)]}
    reference = profile_of(before, ["a"] * 2000)

    found = {
        drift.column: drift.is_drifted for drift in drift_from(reference, after, ["a"] * 2000, max_psi=0.25)
    }

    assert found == {"x": True, "y": False, "label": False}


def test_new_labels_are_drift() -> None:
    reference = profile_of({"x": [1.0] * 300}, ["a"] * 300)

    (_, labels) = drift_from(reference, {"x": [1.0] * 300}, ["a"] * 150 + ["b"] * 150, max_psi=0.25)

    assert labels.is_drifted


def test_few_rows_of_the_same_kind_are_no_drift() -> None:
    # The index of 40 rows is above 0.25 in most of these; chance alone explains it.
    rng = random.Random(2)
    columns = [str(number) for number in range(64)]
    alarms, above = 0, 0
    for _ in range(30):
        before = {name: [rng.random() for _ in range(40)] for name in columns}
        after = {name: [rng.random() for _ in range(40)] for name in columns}
        found = drift_from(profile_of(before, ["a"] * 40), after, ["a"] * 40, max_psi=0.25)
        alarms += any(drift.is_drifted for drift in found)
        above += any(drift.psi > 0.25 for drift in found)

    assert above == 30
    assert alarms == 0


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=12),
    st.lists(st.integers(0, 1000), min_size=12, max_size=12),
)
def test_the_index_is_zero_for_the_same_symmetric_and_never_negative(
    one: list[int], other: list[int]
) -> None:
    other = other[: len(one)]

    assert psi(one, one) == 0
    assert psi(one, other) >= 0
    assert psi(one, other) == pytest.approx(psi(other, one))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_the_bins_of_a_profile_hold_every_row(values: list[float]) -> None:
    profile = profile_of({"x": values}, ["a"] * len(values)).features["x"]

    assert sum(profile.counts) == len(values)
    assert profile.edges == sorted(set(profile.edges))
    assert len(profile.counts) == len(profile.edges) + 1


@pytest.mark.parametrize("degrees", [1, 3, 9, 20])
@pytest.mark.parametrize("chance", [0.999, 1 - 0.001 / 65])
def test_the_quantile_is_close_to_that_of_scipy(degrees: int, chance: float) -> None:
    assert _chi_squared(degrees, chance) == pytest.approx(
        chi2.ppf(chance, degrees), rel=0.11 if degrees == 1 else 0.05
    )
