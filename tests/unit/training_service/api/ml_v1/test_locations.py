"""``projects.locations``: the regions, page by page."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from training_api.dialects.ml_v1.locations import REGIONS

PATH = "/v1/projects/demo/locations"
NAMES = [region.name for region in REGIONS]


def page(http: TestClient, **query: Any) -> tuple[list[str], str | None]:
    answer = http.get(PATH, params=query).raise_for_status().json()
    names = [location["name"].rpartition("/")[2] for location in answer["locations"]]
    return names, answer.get("nextPageToken")


@pytest.mark.parametrize("size", [1, 5, len(NAMES) - 1])
def test_the_pages_together_are_all_regions_once(http: TestClient, size: int) -> None:
    found, token = page(http, pageSize=size)
    assert len(found) == size
    while token:
        names, token = page(http, pageSize=size, pageToken=token)
        found += names

    assert found == NAMES


@pytest.mark.parametrize("size", [0, len(NAMES), 10**9])
def test_a_page_that_has_room_for_all_is_the_last(http: TestClient, size: int) -> None:
    assert page(http, pageSize=size) == (NAMES, None)


def test_a_region_is_described_for_its_project(http: TestClient) -> None:
    assert http.get(f"{PATH}/us-central1").json() == {
        "name": "projects/demo/locations/us-central1",
        "capabilities": [{"type": "TRAINING"}],
    }


def test_a_region_that_there_is_not_is_answered_with_those_that_there_are(http: TestClient) -> None:
    answer = http.get(f"{PATH}/mars-north1")

    assert answer.status_code == 404
    assert "location 'mars-north1' not found; there are asia-east1, " in answer.json()["error"]["message"]


@pytest.mark.parametrize("query", [{"pageToken": "mars-north1"}, {"pageSize": -1}, {"pageSize": "many"}])
def test_a_page_that_nobody_gave_out_is_refused(http: TestClient, query: dict[str, Any]) -> None:
    assert http.get(PATH, params=query).json()["error"]["status"] == "INVALID_ARGUMENT"
