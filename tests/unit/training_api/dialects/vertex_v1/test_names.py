"""Ids and names of resources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.dialects.vertex_v1.names import job_name, location_name, new_id, trial_job_id, trial_uid


@given(st.integers(min_value=0, max_value=2**70))
def test_an_id_is_a_number_of_19_digits_within_64_bits(random: int) -> None:
    found = new_id(random)

    assert len(found) == 19
    assert 10**18 <= int(found) < 2**63


@given(st.integers(min_value=0, max_value=2**48 - 1))
def test_the_id_of_a_trial_leads_back_to_its_key(number: int) -> None:
    uid = f"{number:012x}"

    assert len(trial_job_id(uid)) == 19
    assert trial_uid(trial_job_id(uid)) == uid


@pytest.mark.parametrize(
    "job_id", ["", "job", "1", "²" * 19, str(10**18 - 1), str(10**18 + 2**48), "1" * 5000]
)
def test_another_id_leads_to_no_trial(job_id: str) -> None:
    assert trial_uid(job_id) == ""


def test_names_are_those_of_the_api() -> None:
    assert location_name(123, "us-central1") == "projects/123/locations/us-central1"
    assert (
        job_name(123, "us-central1", "customJobs", "4") == "projects/123/locations/us-central1/customJobs/4"
    )
