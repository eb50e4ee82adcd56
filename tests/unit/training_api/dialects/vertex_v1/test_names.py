"""Ids and names of resources."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from training_api.dialects.vertex_v1.names import job_name, location_name, new_id


@given(st.integers(min_value=0, max_value=2**70))
def test_an_id_is_a_number_of_19_digits_within_64_bits(random: int) -> None:
    found = new_id(random)

    assert len(found) == 19
    assert 10**18 <= int(found) < 2**63


def test_names_are_those_of_the_api() -> None:
    assert location_name(123, "us-central1") == "projects/123/locations/us-central1"
    assert (
        job_name(123, "us-central1", "customJobs", "4") == "projects/123/locations/us-central1/customJobs/4"
    )
