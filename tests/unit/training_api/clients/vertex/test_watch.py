"""Jobs of Vertex AI for those who watch them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.fakes.fake_service import PROJECT
from tests.support.fakes.fake_vertex import REGION, TUNING, FakeVertex
from training_api.clients.vertex.client import VertexClient
from training_api.clients.vertex.watch import NEWEST, VertexWatch
from training_api.errors import InvalidArgument, InvalidFilter, JobNotFound, NotTold, TransportError
from training_api.fleet.history import FleetHistoryRequest
from training_api.fleet.wire import SearchJobsRequest
from training_api.states import JobState
from training_api.vertex_jobs.address import VertexAddress

ADDRESS = VertexAddress(project=PROJECT, regions=(REGION, "europe-west4"))
KEEP_SECONDS = 5.0


@pytest.fixture
def seconds() -> list[float]:
    return [0.0]


@pytest.fixture
def vertex(seconds: list[float]) -> FakeVertex:
    return FakeVertex(lambda: seconds[0])


@pytest.fixture
def watch(vertex: FakeVertex, seconds: list[float]) -> Iterator[VertexWatch]:
    client = VertexClient(ADDRESS, transport=httpx.MockTransport(vertex.handle))
    watch = VertexWatch(client, KEEP_SECONDS, clock=lambda: seconds[0])
    yield watch
    watch.close()


def listed(watch: VertexWatch, filter_: str = "", **more: Any) -> list[str]:
    found = watch.search_jobs(SearchJobsRequest(filter=filter_, **more))
    return [row.display_name for row in found.jobs]


def test_jobs_of_all_regions_and_kinds_are_one_list_newest_first(
    watch: VertexWatch, vertex: FakeVertex, seconds: list[float]
) -> None:
    for number, (name, place) in enumerate(
        [("a", {}), ("b", {"collection": TUNING}), ("c", {"region": "europe-west4"}), ("d", {})]
    ):
        seconds[0] = number
        vertex.add(name, "RUNNING" if name == "b" else "SUCCEEDED", **place)

    found = watch.search_jobs(SearchJobsRequest(page_size=3))

    assert [row.display_name for row in found.jobs] == ["d", "c", "b"]
    assert (found.total, found.states) == (4, {JobState.SUCCEEDED: 3, JobState.RUNNING: 1})
    assert {row.dialect for row in found.jobs} == {"vertex_v1"}
    assert listed(watch, page_size=3, page_token=found.next_page_token) == ["a"]


def test_the_list_is_shared_for_a_while(watch: VertexWatch, vertex: FakeVertex, seconds: list[float]) -> None:
    vertex.add("a")
    before = watch.version()
    listed(watch)
    assert len(vertex.requests) == 4  # one for each region and kind

    vertex.add("b")
    seconds[0] = KEEP_SECONDS - 0.1
    assert (watch.version(), listed(watch)) == (before, ["a"])

    seconds[0] = KEEP_SECONDS
    assert watch.version() != before
    assert sorted(listed(watch)) == ["a", "b"]
    assert len(vertex.requests) == 8


def test_a_service_that_is_down_is_not_asked_by_each_page(watch: VertexWatch, vertex: FakeVertex) -> None:
    vertex.faults = [httpx.ConnectError("down")] * 4

    for _ in range(3):
        with pytest.raises(TransportError):
            watch.version()

    assert len(vertex.requests) == 1


def test_no_more_than_the_newest_are_listed(watch: VertexWatch, vertex: FakeVertex) -> None:
    for number in range(NEWEST + 100):
        vertex.add(f"j{number}")

    found = watch.search_jobs(SearchJobsRequest(page_size=1000))

    assert found.total == NEWEST
    assert len(vertex.requests) == NEWEST / 100 + 3


def test_a_filter_and_the_dags_of_the_reader_decide_what_is_seen(
    watch: VertexWatch, vertex: FakeVertex
) -> None:
    for name, dag in (("a", "mine"), ("b", "mine"), ("c", "theirs")):
        vertex.add(name, "FAILED" if name == "b" else "RUNNING", labels={"airflow-dag": dag})
    vertex.add("d", labels={})

    assert sorted(listed(watch, dags=["mine"])) == ["a", "b"]
    assert listed(watch, "state=FAILED", dags=["mine", "theirs"]) == ["b"]
    assert listed(watch, "labels.airflow-dag=theirs") == ["c"]
    with pytest.raises(InvalidFilter):
        listed(watch, "region=a")
    with pytest.raises(InvalidArgument, match="page_token must be one that was given, got 'x'"):
        listed(watch, page_token="x")


def test_a_job_that_cannot_be_read_hides_no_other(watch: VertexWatch, vertex: FakeVertex) -> None:
    vertex.add("good")
    vertex.add("bad", createTime="yesterday")

    assert listed(watch) == ["good"]


def test_a_job_has_its_page_by_number_name_and_resource_name(watch: VertexWatch, vertex: FakeVertex) -> None:
    number = vertex.add("digits_1", "RUNNING", startTime="2026-01-01T00:00:00Z")
    name = f"projects/1234/locations/{REGION}/customJobs/{number}"

    for asked in (number, "digits_1", name):
        found = watch.job(asked)
        assert (found.job.job_id, found.job.display_name) == (number, "digits_1")
        assert found.region == REGION
    assert [pool.name for pool in found.pools] == ["workerpool0"]
    assert found.request["displayName"] == "digits_1"
    assert "state" not in found.request
    assert found.job.billed_seconds > 0

    with pytest.raises(JobNotFound):
        watch.job(name.replace("customJobs", "trainingPipelines"))
    with pytest.raises(JobNotFound):
        watch.job("99")


def test_a_tuning_job_has_its_trials(watch: VertexWatch, vertex: FakeVertex) -> None:
    trial = {
        "id": "1",
        "state": "SUCCEEDED",
        "parameters": [{"parameterId": "rate", "value": 0.5}],
        "startTime": "2026-01-01T00:00:00Z",
        "endTime": "2026-01-01T00:01:00Z",
        "finalMeasurement": {"stepCount": "3", "metrics": [{"metricId": "accuracy", "value": 0.9}]},
    }
    active = {"id": "2", "state": "ACTIVE", "parameters": []}
    number = vertex.add("search", "RUNNING", collection=TUNING, trials=[trial, active])

    found = watch.job(number)

    assert found.study is not None
    assert (found.study.metric_tag, found.study.max_trials) == ("accuracy", 4)
    first, second = found.trials
    assert (first.objective, first.step, first.state) == (0.9, 3, JobState.SUCCEEDED)
    assert second.state is JobState.RUNNING
    (row,) = watch.search_jobs(SearchJobsRequest()).jobs
    assert row.trials is not None
    assert (row.trials.total, row.trials.ended) == (2, 1)
    assert row.billed_seconds == 60


def test_a_cancelled_job_is_looked_at_anew(watch: VertexWatch, vertex: FakeVertex) -> None:
    number = vertex.add("a", "RUNNING")
    before = watch.version()

    watch.cancel_job(number)

    assert watch.version() != before
    assert watch.job(number).job.state is JobState.CANCELLED


def test_what_vertex_ai_does_not_tell(watch: VertexWatch) -> None:
    assert (watch.timeline("1").spans, watch.usage("1").series, watch.curves("1").curves) == ([], [], [])
    with pytest.raises(NotTold, match="no fleet page"):
        watch.fleet()
    with pytest.raises(NotTold):
        watch.history(FleetHistoryRequest(window_seconds=3600, step_seconds=60, cost_step_seconds=60))
