"""Where a person finds a job: its page, its record and its log."""

from __future__ import annotations

import pytest

from container_training.work.results.job_report import JobAddress, job_log_url, job_page_url, job_record_url


def test_logs_of_googles_service_are_in_its_console() -> None:
    job = JobAddress(endpoint="https://ml.googleapis.com", project="p", job_id="j_1", conn_id="c")

    assert job_record_url(job) == "https://ml.googleapis.com/v1/projects/p/jobs/j_1"
    assert job_log_url(job) == (
        "https://console.cloud.google.com/logs/query;query=resource.labels.job_id%3D%22j_1%22?project=p"
    )


@pytest.mark.parametrize(
    ("airflow_url", "address"),
    [
        ("", "/training/jobs/j_1?conn_id=my%20service"),
        ("https://a.test/airflow", "https://a.test/airflow/training/jobs/j_1?conn_id=my%20service"),
    ],
)
def test_the_page_of_a_job_is_airflows_own_and_a_path_where_nobody_knows_its_address(
    airflow_url: str, address: str
) -> None:
    job = JobAddress(
        endpoint="http://e", project="p", job_id="j_1", conn_id="my%20service", airflow_url=airflow_url
    )

    assert job_page_url(job) == address


def test_a_service_of_ones_own_shows_the_log_itself() -> None:
    job = JobAddress(endpoint="http://training.test:8470", project="p", job_id="j_1", conn_id="c")

    assert job_log_url(job) == "http://training.test:8470/logs/projects/p/jobs/j_1"
