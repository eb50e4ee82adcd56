"""The pages of a connection to Vertex AI: what it tells, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from starlette.testclient import TestClient

from container_training.dashboard.access import ACTION_HEADER
from tests.support.fakes.fake_service import PROJECT
from tests.support.fakes.fake_vertex import REGION, TUNING, FakeVertex
from tests.support.fakes.service_of_two_dags import RIGHTS
from tests.unit.container_training.dashboard.routes.conftest import OpenPages
from training_api.clients.vertex.client import VertexClient
from training_api.clients.vertex.watch import VertexWatch
from training_api.job.labels import DAG_LABEL
from training_api.vertex_jobs.address import VertexAddress

MINE = {DAG_LABEL: "mine"}


@pytest.fixture
def vertex() -> FakeVertex:
    return FakeVertex()


@pytest.fixture
def pages(open_pages: OpenPages, vertex: FakeVertex) -> Iterator[TestClient]:
    client = VertexClient(
        VertexAddress(project=PROJECT, regions=(REGION,)), transport=httpx.MockTransport(vertex.handle)
    )
    watch = VertexWatch(client, keep_seconds=0.0)
    with open_pages(vertex.handle, RIGHTS, project=PROJECT, ops=watch, training=client) as pages:
        yield pages
    client.close()


def test_the_list_has_the_jobs_of_the_readers_dags(pages: TestClient, vertex: FakeVertex) -> None:
    mine = vertex.add("digits_1", "RUNNING", labels=MINE, startTime="2026-01-01T00:00:00Z")
    vertex.add("digits_2", "RUNNING", labels={DAG_LABEL: "theirs"})

    found = pages.get("/api/jobs").json()

    (row,) = found["jobs"]
    assert (row["id"], row["displayName"], row["state"]) == (mine, "digits_1", "RUNNING")
    assert row["canCancel"]
    assert found["total"] == 1


def test_a_page_of_a_job_has_its_request_and_its_log(pages: TestClient, vertex: FakeVertex) -> None:
    number = vertex.add("digits_1", "FAILED", labels=MINE, error={"code": 3, "message": "exited with 7"})
    vertex.write(number, "epoch 1")

    page = pages.get(f"/api/jobs/{number}").json()
    assert page["job"]["error"] == "exited with 7"
    assert page["pools"][0]["name"] == "workerpool0"
    assert page["request"]["jobSpec"]

    (line,) = pages.get(f"/api/jobs/{number}/log").json()["lines"]
    assert (line["text"], line["replica"]) == ("epoch 1", "workerpool0-0")
    for path, name in (("usage", "series"), ("curves", "metrics")):
        assert pages.get(f"/api/jobs/{number}/{path}").json() == {name: []}
    assert pages.get(f"/api/jobs/{number}/timeline").status_code == 200


def test_a_tuning_job_has_its_table(pages: TestClient, vertex: FakeVertex) -> None:
    trial = {
        "id": "1",
        "state": "SUCCEEDED",
        "parameters": [{"parameterId": "rate", "value": 0.5}],
        "finalMeasurement": {"metrics": [{"metricId": "accuracy", "value": 0.9}]},
    }
    number = vertex.add("search", "RUNNING", collection=TUNING, labels=MINE, trials=[trial])

    study = pages.get(f"/api/jobs/{number}").json()["study"]

    assert (study["metric"], study["best"]) == ("accuracy", "1")
    assert study["trials"][0]["parameters"] == {"rate": "0.5"}
    assert pages.get(f"/api/jobs/{number}/plots/best-so-far").status_code == 200


def test_a_job_is_cancelled(pages: TestClient, vertex: FakeVertex) -> None:
    number = vertex.add("digits_1", "RUNNING", labels=MINE)

    answer = pages.post(f"/api/jobs/{number}/cancel", headers={ACTION_HEADER: "1"})

    assert answer.json() == {"id": number, "state": "CANCELLED"}


def test_others_jobs_are_not_there(pages: TestClient, vertex: FakeVertex) -> None:
    number = vertex.add("digits_2", "RUNNING", labels={DAG_LABEL: "theirs"})

    for answer in (pages.get(f"/api/jobs/{number}"), pages.get(f"/api/jobs/{number}/log")):
        assert answer.status_code == 404


def test_the_fleet_is_told_to_be_elsewhere(pages: TestClient) -> None:
    answer = pages.get("/api/fleet")

    assert answer.status_code == 501
    assert "Google's console" in answer.json()["message"]
    assert answer.json()["advice"] == "Choose another connection at the top of the page."
