"""What is asked of Compute Engine and Service Usage, and what their answers mean."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.fakes.google_project import GoogleProject, limit, quota_path, serve
from training_api.clients.vertex.project_facts import ProjectFacts
from training_api.errors import AccessDenied, TransportError
from training_api.vertex_jobs.address import VertexAddress

NUMBER = 608533675308
METRIC = "aiplatform.googleapis.com/custom_model_training_cpus"
MACHINES = "/compute/v1/projects/my-project/aggregated/machineTypes"
HERE = "europe-west4"


@pytest.fixture
def google() -> GoogleProject:
    return GoogleProject()


@pytest.fixture
def facts(google: GoogleProject) -> Iterator[ProjectFacts]:
    with serve(google) as url:
        address = VertexAddress(project="my-project", regions=(HERE,), endpoint=f"{url}/vertex")
        with ProjectFacts(address) as facts:
            yield facts


def test_zones_are_those_with_an_entry(google: GoogleProject, facts: ProjectFacts) -> None:
    google.has_machines("machineTypes", "n1-standard-4", "europe-west4-a", "us-central1-b")

    assert facts.zones_of("machineTypes", "n1-standard-4") == {"europe-west4-a", "us-central1-b"}
    assert google.asked == [(MACHINES, {"filter": ['name = "n1-standard-4"']})]


def test_all_pages_are_read() -> None:
    pages = {
        None: {"items": {"zones/a-a": {"machineTypes": [{"name": "m"}]}}, "nextPageToken": "2"},
        "2": {"items": {"zones/b-b": {"machineTypes": [{"name": "m"}]}}},
    }
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, json=pages[request.url.params.get("pageToken")])
    )
    address = VertexAddress(project="my-project", regions=(HERE,))

    with ProjectFacts(address, transport=transport) as facts:
        assert facts.zones_of("machineTypes", "m") == {"a-a", "b-b"}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([limit(("", 42))], 42),
        ([limit(("", 42), (HERE, 7))], 7),
        ([limit(("", 42), ("us-central1", 7))], 42),
        ([limit(("", None))], 0),
        ([limit(("", -1))], None),
        ([limit(("", 42)), limit(("", 40), unit="1/{project}")], 40),
        ([limit(("", 1), unit="1/min/{project}/{region}")], None),
        ([], None),
    ],
)
def test_a_limit_is_that_of_the_region_else_of_all(
    google: GoogleProject, facts: ProjectFacts, limits: list[dict[str, Any]], expected: int | None
) -> None:
    google.has_quota("cpus", *limits)

    assert facts.quota_limit(NUMBER, METRIC, HERE) == expected
    assert google.asked == [(quota_path("cpus"), {"view": ["FULL"]})]


def test_a_refusal_names_the_api_and_the_role(google: GoogleProject, facts: ProjectFacts) -> None:
    google.answers[MACHINES] = google.answers[quota_path("cpus")] = 403

    with pytest.raises(AccessDenied, match=r"enable compute\.googleapis\.com, .* roles/compute\.viewer"):
        facts.zones_of("machineTypes", "n1-standard-4")
    with pytest.raises(AccessDenied, match=r"enable serviceusage\.googleapis\.com"):
        facts.quota_limit(NUMBER, METRIC, HERE)


@pytest.mark.parametrize(
    "answer", [["a list"], {"consumerQuotaLimits": [{"quotaBuckets": [{"effectiveLimit": "many"}]}]}]
)
def test_an_answer_of_another_form_is_none(google: GoogleProject, facts: ProjectFacts, answer: Any) -> None:
    google.answers[quota_path("cpus")] = answer

    with pytest.raises(TransportError, match="what is not its resource"):
        facts.quota_limit(NUMBER, METRIC, HERE)


def test_googles_own_hosts_are_asked_where_no_other_is_named() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        return httpx.Response(200, json={})

    address = VertexAddress(project="my-project", regions=(HERE,))
    with ProjectFacts(address, transport=httpx.MockTransport(answer)) as facts:
        facts.zones_of("acceleratorTypes", "nvidia-tesla-t4")
        facts.quota_limit(NUMBER, METRIC, HERE)

    assert asked == ["compute.googleapis.com", "serviceusage.googleapis.com"]
