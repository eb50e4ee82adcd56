"""The regions, and what each of them can do."""

from __future__ import annotations

import pytest

from tests.support.discovery import schemas, wire_names
from training_api.dialects.ml_v1 import locations
from training_api.dialects.ml_v1.locations import REGIONS, Region, location_of
from training_api.wire import WireModel

SCHEMAS = schemas("ml.v1")


@pytest.mark.parametrize("model", [locations.Capability, locations.ListLocationsResponse, locations.Location])
def test_a_model_has_exactly_the_fields_of_its_schema(model: type[WireModel]) -> None:
    schema = SCHEMAS[f"GoogleCloudMlV1__{model.__name__}"]

    assert wire_names(model) == set(schema["properties"])


def test_what_a_location_can_do_is_as_in_the_document() -> None:
    capabilities = SCHEMAS["GoogleCloudMlV1__Capability"]["properties"]["type"]["enum"]

    assert [member.value for member in locations.CapabilityType] == capabilities


def test_a_region_is_a_location_of_its_project() -> None:
    assert location_of("demo", Region(name="us-central1")).to_wire() == {
        "name": "projects/demo/locations/us-central1",
        "capabilities": [{"type": "TRAINING"}],
    }


def test_no_region_is_listed_twice_and_all_are_in_order() -> None:
    names = [region.name for region in REGIONS]

    assert names == sorted(set(names))


def test_the_region_of_the_guides_commands_is_the_only_certain_one() -> None:
    assert [region.name for region in REGIONS if region.certain] == ["us-central1"]
