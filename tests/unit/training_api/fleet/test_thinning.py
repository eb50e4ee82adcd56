"""Thinned series: shorter, with the first, the last and the extremes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from training_api.fleet.thinning import kept_places

VALUES = st.lists(st.none() | st.floats(-1e9, 1e9), max_size=300)


@given(VALUES, st.integers(4, 40))
def test_thinned_values_keep_first_last_and_extremes(values: list[float | None], most: int) -> None:
    places = kept_places(values, most)

    assert places == sorted(set(places))
    assert len(places) <= max(most, 0) or len(values) <= most
    if values:
        assert {places[0], places[-1]} == {0, len(values) - 1}
    known = [value for value in values if value is not None]
    if known:
        kept = [values[place] for place in places if values[place] is not None]
        assert max(kept, default=None) == max(known)  # type: ignore[type-var]
        assert min(kept, default=None) == min(known)  # type: ignore[type-var]
