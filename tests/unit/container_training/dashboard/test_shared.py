"""A job that a person asks for: there, or not, and nobody can tell why not."""

from __future__ import annotations

import httpx
import pytest

from container_training.dashboard.airflow_side.connections import Service
from container_training.dashboard.shared import readable_job
from container_training.work.job_buckets import JobBuckets
from tests.support.fakes.service_of_two_dags import RIGHTS, ServiceOfTwoDags
from training_api.clients.fleet import OpsClient
from training_api.clients.training import TrainingClient
from training_api.dialects.ml_v1.cost import PriceList
from training_api.errors import JobNotFound, TransportError

pytestmark = pytest.mark.usefixtures("kept_answers")


class CountedService(ServiceOfTwoDags):
    """Counts its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.count += 1
        return super().__call__(request)


@pytest.fixture
def played() -> CountedService:
    return CountedService()


@pytest.fixture
def service(played: CountedService) -> Service:
    transport = httpx.MockTransport(played)
    return Service(
        conn_id="c",
        project="p",
        ops=OpsClient("http://service.test", "p", transport=transport),
        training=TrainingClient("http://service.test", "p", transport=transport),
        prices=PriceList(source="prices", per_second={}),
        job_buckets=JobBuckets.of("c", "p", {}),
    )


def test_a_job_of_a_readable_dag_is_there(service: Service) -> None:
    assert readable_job(service, "of_mine", RIGHTS).job.job_id == "of_mine"


def test_a_hidden_job_and_none_are_told_in_the_same_words(service: Service) -> None:
    said = []
    for job_id in ("of_theirs", "absent"):
        with pytest.raises(JobNotFound) as caught:
            readable_job(service, job_id, RIGHTS)
        said.append((str(caught.value).replace(job_id, "JOB"), caught.value.__context__))

    assert said == [("there is no job 'JOB'", None)] * 2


def test_trouble_is_not_taken_for_absence(service: Service, played: CountedService) -> None:
    played.is_down = True

    with pytest.raises(TransportError):
        readable_job(service, "of_mine", RIGHTS)


def test_the_service_is_asked_once_a_version(service: Service, played: CountedService) -> None:
    for version in ("", "1", "1", "2", "2"):
        readable_job(service, "of_mine", RIGHTS, version)

    assert played.count == 3
