"""``locations`` of Vertex AI."""

from __future__ import annotations

from fastapi.testclient import TestClient

from training_api.dialects.vertex_v1.locations import LOCATIONS

PATH = "/vertex/v1/projects/demo/locations"


def test_locations_are_listed_in_pages(http: TestClient) -> None:
    first = http.get(PATH, params={"pageSize": 30}).json()
    rest = http.get(PATH, params={"pageSize": 30, "pageToken": first["nextPageToken"]}).json()

    assert tuple(each["locationId"] for each in [*first["locations"], *rest["locations"]]) == LOCATIONS
    assert "nextPageToken" not in rest


def test_any_name_of_a_location_is_served(http: TestClient) -> None:
    assert http.get(f"{PATH}/local-1").json() == {
        "name": "projects/demo/locations/local-1",
        "locationId": "local-1",
        "labels": {"cloud.googleapis.com/region": "local-1"},
    }
    assert http.get(f"{PATH}/No_Location").status_code == 400
    assert http.get(PATH, params={"pageToken": "nope"}).status_code == 400


def test_the_two_dialects_have_their_own_locations(http: TestClient) -> None:
    assert "capabilities" in http.get("/v1/projects/demo/locations/us-central1").json()
    assert "locationId" in http.get(f"{PATH}/us-central1").json()
