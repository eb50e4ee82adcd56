"""Projects, which this service knows by name only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.job.project_number import project_number
from training_service.model.projects import service_agent


@pytest.mark.parametrize("number", ["12", "123456789012", "9" * 18])
def test_a_projects_number_is_itself(number: str) -> None:
    assert project_number(number) == int(number)


@given(st.text(min_size=1).filter(lambda text: not text.isdecimal()))
def test_any_other_project_has_twelve_digits_the_same_every_time(project: str) -> None:
    assert len(str(project_number(project))) == 12
    assert project_number(project) == project_number(project)


def test_a_number_that_no_64_bits_hold_is_a_name() -> None:
    assert project_number("9" * 19) < 10**12


def test_the_service_agent_is_named_after_the_number() -> None:
    assert service_agent("12") == "service-12@cloud-ml.google.com.iam.gserviceaccount.com"
    assert service_agent("demo") != service_agent("demo2")
