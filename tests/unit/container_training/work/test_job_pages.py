"""Where a person finds a job, its record and its log, and how they cancel it."""

from __future__ import annotations

import pytest

from container_training.work.job_pages import (
    Dashboard,
    JobPages,
    JobPlace,
    training_cancel_command,
    training_pages,
    vertex_cancel_command,
    vertex_pages,
)
from tests.support.fakes.fake_service import make_job
from training_api.dialects.ml_v1.resources import HyperparameterSpec, Job, TrainingInput
from training_api.vertex_jobs.address import VertexAddress

JOB = JobPlace(job_id="j_1")
NUMBERED = JobPlace(job_id="42", region="europe-west4")
SEARCH = JobPlace(job_id="43", region="europe-west4", is_study=True)
DASHBOARD = Dashboard(airflow_url="https://a.test", conn_id="my%20service")
GOOGLE = VertexAddress(project="p", regions=("us-central1", "europe-west4"))
OWN = VertexAddress(project="p", regions=("us-central1",), endpoint="http://training.test:8470/vertex")


def test_a_place_is_what_a_service_says_of_its_job() -> None:
    search = TrainingInput(region="europe-west4", hyperparameters=HyperparameterSpec(params=[]))

    assert JobPlace.of(Job(job_id="43", training_input=search)) == SEARCH
    assert JobPlace.of(make_job(training_input=None)) == JobPlace(job_id="digits_1")


def test_logs_of_googles_service_are_in_its_console() -> None:
    assert training_pages("https://ml.googleapis.com", "p", JOB, DASHBOARD) == JobPages(
        page_url="https://a.test/training/jobs/j_1?conn_id=my%20service",
        record_url="https://ml.googleapis.com/v1/projects/p/jobs/j_1",
        log_url="https://console.cloud.google.com/logs/query;query=resource.labels.job_id%3D%22j_1%22?project=p",
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
    dashboard = Dashboard(airflow_url=airflow_url, conn_id="my%20service")

    assert training_pages("http://e", "p", JOB, dashboard).page_url == address


def test_a_service_of_ones_own_shows_the_log_itself() -> None:
    pages = training_pages("http://training.test:8470", "p", JOB, DASHBOARD)

    assert pages.log_url == "http://training.test:8470/logs/projects/p/jobs/j_1"


@pytest.mark.parametrize(("job", "kind"), [(NUMBERED, "customJobs"), (SEARCH, "hyperparameterTuningJobs")])
def test_a_job_of_vertex_ai_is_in_googles_console_under_its_region(job: JobPlace, kind: str) -> None:
    console = "https://console.cloud.google.com"

    assert vertex_pages(GOOGLE, job, DASHBOARD) == JobPages(
        page_url=f"{console}/agent-platform/locations/europe-west4/training/{job.job_id}?project=p",
        record_url="https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/"
        f"{kind}/{job.job_id}",
        log_url=f"{console}/logs/query;query=resource.labels.job_id%3D%22{job.job_id}%22?project=p",
    )


def test_a_job_whose_region_nobody_saw_is_looked_for_in_the_first() -> None:
    assert "/us-central1/training/42?" in vertex_pages(GOOGLE, JobPlace(job_id="42"), DASHBOARD).page_url


def test_a_service_of_ones_own_shows_its_jobs_of_vertex_ai_on_the_dashboard() -> None:
    record = "http://training.test:8470/vertex/v1/projects/p/locations/europe-west4/customJobs/42"
    log = "http://training.test:8470/logs/projects/p/jobs/42"
    page = "https://a.test/training/jobs/42?conn_id=my%20service"

    assert vertex_pages(OWN, NUMBERED, DASHBOARD) == JobPages(page_url=page, record_url=record, log_url=log)


def test_each_api_has_a_command_that_cancels() -> None:
    assert training_cancel_command("p", JOB) == "gcloud ai-platform jobs cancel j_1 --project p"
    assert vertex_cancel_command(GOOGLE, NUMBERED) == (
        "gcloud ai custom-jobs cancel 42 --region europe-west4 --project p"
    )
    assert vertex_cancel_command(GOOGLE, SEARCH) == (
        "gcloud ai hp-tuning-jobs cancel 43 --region europe-west4 --project p"
    )
