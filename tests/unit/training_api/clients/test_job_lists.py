"""Lists are read to their end, whatever their pages hold."""

from __future__ import annotations

from itertools import islice

import httpx
import pytest

from tests.support.fakes.fake_service import PROJECT
from tests.support.fakes.fake_vertex import CUSTOM, REGION, TUNING, FakeVertex
from training_api.clients.job_lists import listed_jobs
from training_api.clients.vertex.client import VertexClient
from training_api.vertex_jobs.address import VertexAddress

ELSEWHERE = "europe-west4"


@pytest.fixture
def vertex() -> FakeVertex:
    return FakeVertex()


@pytest.fixture
def client(vertex: FakeVertex) -> VertexClient:
    address = VertexAddress(project=PROJECT, regions=(REGION, ELSEWHERE))
    return VertexClient(address, transport=httpx.MockTransport(vertex.handle))


def test_jobs_of_all_regions_and_kinds_are_listed_although_the_first_page_is_empty(
    client: VertexClient, vertex: FakeVertex
) -> None:
    numbers = {vertex.add(region=ELSEWHERE, collection=TUNING) for _ in range(3)}
    numbers.add(vertex.add(region=ELSEWHERE, collection=CUSTOM))

    found = [job.job_id for job in listed_jobs(lambda token: client.list_jobs("", 2, token))]

    assert len(found) == 4
    assert set(found) == numbers


def test_no_page_is_asked_for_that_is_not_read(client: VertexClient, vertex: FakeVertex) -> None:
    for _ in range(3):
        vertex.add()

    assert len(list(islice(listed_jobs(lambda token: client.list_jobs("", 2, token)), 2))) == 2
    assert len(vertex.requests) == 1
