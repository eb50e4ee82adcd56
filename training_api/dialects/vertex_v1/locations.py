"""The locations of Vertex AI, as data. Pure."""

from __future__ import annotations

from typing import Any

from training_api.dialects.vertex_v1.names import location_name

#: Those that the SDK takes [code: google-cloud-aiplatform 2.7.0, constants/base.py], but ``global``, where
#: nothing trains. Every other name of their form is served as well: clients' lists differ.
LOCATIONS = (
    "africa-south1",
    "asia-east1",
    "asia-east2",
    "asia-northeast1",
    "asia-northeast2",
    "asia-northeast3",
    "asia-south1",
    "asia-south2",
    "asia-southeast1",
    "asia-southeast2",
    "australia-southeast1",
    "australia-southeast2",
    "europe-central2",
    "europe-north1",
    "europe-north2",
    "europe-southwest1",
    "europe-west1",
    "europe-west12",
    "europe-west2",
    "europe-west3",
    "europe-west4",
    "europe-west6",
    "europe-west8",
    "europe-west9",
    "me-central1",
    "me-central2",
    "me-west1",
    "northamerica-northeast1",
    "northamerica-northeast2",
    "southamerica-east1",
    "southamerica-west1",
    "us-central1",
    "us-east1",
    "us-east4",
    "us-east5",
    "us-east7",
    "us-south1",
    "us-west1",
    "us-west2",
    "us-west3",
    "us-west4",
    "us-west8",
)


def location_of(project: str, location: str) -> dict[str, Any]:
    """Return the ``google.cloud.location.Location`` of a name."""
    return {
        "name": location_name(project, location),
        "locationId": location,
        "labels": {"cloud.googleapis.com/region": location},
    }
