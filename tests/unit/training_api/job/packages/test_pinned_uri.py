"""Addresses with a generation are read back as they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.job.packages.pinned_uri import pinned, split_pinned


@given(st.text(min_size=1), st.integers(0))
def test_what_was_pinned_is_split_again(name: str, generation: int) -> None:
    assert split_pinned(pinned(f"gs://b/{name}", generation)) == (f"gs://b/{name}", generation)


@pytest.mark.parametrize("uri", ["gs://b/x", "gs://b/x#", "gs://b/x#1a", "gs://b/x#-1", "file#1"])
def test_what_names_no_generation_is_left_as_it_is(uri: str) -> None:
    assert split_pinned(uri) == (uri, None)
    assert pinned(uri, None) == uri
