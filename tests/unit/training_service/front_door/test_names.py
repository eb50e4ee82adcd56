import pytest

from training_api.dialects.vertex_v1.locations import LOCATIONS
from training_service.front_door.names import API_HOST, NAMES, is_api_host


def test_every_location_has_a_name_that_clients_may_ask_for() -> None:
    names = [f"{location}-{API_HOST}" for location in LOCATIONS]

    assert names
    assert set(names) < set(NAMES)
    assert all(map(is_api_host, [*names, API_HOST]))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "googleapis.com",
        "storage.googleapis.com",
        "us-central1-aiplatform.googleapis.com.",
        "us-central1-aiplatform.googleapis.com.evil.test",
        "evil.us-central1-aiplatform.googleapis.com",
        "us-central1-aiplatform_googleapis.com",
        "us-central1-aiplatformxgoogleapis.com",
        "us-central1--aiplatform.googleapis.com",
        "us-central-aiplatform.googleapis.com",
        "-aiplatform.googleapis.com",
        "aiplatform.googleapis.com\n",
        "US-CENTRAL1-aiplatform.googleapis.com",
        "us-central\u0661-aiplatform.googleapis.com",
        "localhost",
    ],
)
def test_other_names_are_none_of_vertex_ai(name: str) -> None:
    assert not is_api_host(name)
