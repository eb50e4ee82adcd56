"""Projects, which this service knows by name only, and whose rights their jobs have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_api.dialects.registry import DIALECTS
from training_api.job.job_spec import JobSpec
from training_api.job.project_number import project_number
from training_service.model.projects import account_of


@pytest.mark.parametrize("number", ["12", "123456789012", "9" * 18])
def test_a_projects_number_is_itself(number: str) -> None:
    assert project_number(number) == int(number)


@given(st.text(min_size=1).filter(lambda text: not text.isdecimal()))
def test_any_other_project_has_twelve_digits_the_same_every_time(project: str) -> None:
    assert len(str(project_number(project))) == 12
    assert project_number(project) == project_number(project)


def test_a_number_that_no_64_bits_hold_is_a_name() -> None:
    assert project_number("9" * 19) < 10**12


@pytest.mark.parametrize(
    ("dialect", "named", "account"),
    [
        ("ml_v1", "", "service-12@cloud-ml.google.com.iam.gserviceaccount.com"),
        ("vertex_v1", "", "service-12@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"),
        ("vertex_v1", "trainer@p.iam.gserviceaccount.com", "trainer@p.iam.gserviceaccount.com"),
        ("of_a_later_version", "", ""),
        ("of_a_later_version", "trainer@p.iam.gserviceaccount.com", "trainer@p.iam.gserviceaccount.com"),
    ],
)
def test_a_jobs_account_is_the_one_it_names_or_the_agent_of_its_dialect(
    dialect: str, named: str, account: str
) -> None:
    spec = JobSpec(project="12", job_id="job", replicas=(), dialect=dialect, service_account=named)

    assert account_of(spec, DIALECTS) == account
