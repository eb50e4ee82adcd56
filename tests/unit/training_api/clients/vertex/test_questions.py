"""Where requests about jobs of Vertex AI go; what they ask is tested through the client."""

from __future__ import annotations

import json

import pytest

from tests.support.fakes.fake_service import PROJECT
from tests.support.fakes.fake_vertex import REGION, FakeVertex
from training_api.clients.vertex import questions
from training_api.clients.vertex.questions import VertexQuestions
from training_api.clients.vertex.steps import play
from training_api.errors import InvalidArgument
from training_api.vertex_jobs.address import VertexAddress


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("", "https://europe-west4-aiplatform.googleapis.com"),
        ("http://127.0.0.1:8470/vertex/", "http://127.0.0.1:8470/vertex"),
    ],
)
def test_each_region_of_google_has_a_host_and_another_service_has_one_for_all(
    endpoint: str, url: str
) -> None:
    address = VertexAddress(project=PROJECT, regions=(REGION, "europe-west4"), endpoint=endpoint)

    assert address.of_region("europe-west4") == url


@pytest.mark.parametrize(
    ("endpoint", "own", "url"),
    [
        ("", "", "https://logging.googleapis.com"),
        ("", "http://logs:1/", "http://logs:1"),
        ("http://127.0.0.1:8470/vertex", "", "http://127.0.0.1:8470"),
        ("http://127.0.0.1:8470/vertex", "http://logs:1", "http://logs:1"),
    ],
)
def test_another_api_is_googles_or_beside_a_service_that_is_not_googles(
    endpoint: str, own: str, url: str
) -> None:
    address = VertexAddress(project=PROJECT, regions=(REGION,), endpoint=endpoint)

    assert address.of_api("logging", own) == url


def test_a_project_and_a_domain_are_quoted() -> None:
    asked = VertexQuestions(VertexAddress(project="example.com:p", regions=(REGION,)))

    request = next(asked.page("", 0, ""))

    assert request.url.raw_path.startswith(b"/v1/projects/example.com%3Ap/locations/")


@pytest.mark.parametrize("token", ["nonsense", "asia-east1/customJobs/1", f"{REGION}/models/1"])
def test_a_page_token_of_no_place_is_refused(token: str) -> None:
    asked = VertexQuestions(VertexAddress(project=PROJECT, regions=(REGION,)))

    with pytest.raises(InvalidArgument, match="page_token must be one that a list of jobs"):
        next(asked.page("", 0, token))


def test_a_job_is_cancelled_by_name_although_its_place_was_just_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(questions, "_MAX_PLACES", 1)
    vertex = FakeVertex()
    first, second = vertex.add("job"), vertex.add("job")
    asked = VertexQuestions(VertexAddress(project=PROJECT, regions=(REGION,)))

    play(asked.cancel("job"), lambda request: json.loads(vertex.handle(request).content))

    assert vertex.states() == {first: "CANCELLED", second: "PENDING"}


def test_places_of_jobs_are_forgotten_before_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_MAX_PLACES", 3)
    vertex = FakeVertex()
    numbers = [vertex.add(f"job_{place}") for place in range(10)]
    asked = VertexQuestions(VertexAddress(project=PROJECT, regions=(REGION,)))

    play(asked.page("", 0, ""), lambda request: json.loads(vertex.handle(request).content))

    assert 0 < len(asked._places) <= 3
    assert play(asked.get(numbers[0]), lambda request: json.loads(vertex.handle(request).content))
