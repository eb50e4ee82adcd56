"""``projects.locations`` of the API: its models, and the regions as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from training_api.dialects.ml_v1.resources import AcceleratorType
from training_api.wire import WireModel


class CapabilityType(StrEnum):
    """What a location can do."""

    TYPE_UNSPECIFIED = "TYPE_UNSPECIFIED"
    TRAINING = "TRAINING"
    BATCH_PREDICTION = "BATCH_PREDICTION"
    ONLINE_PREDICTION = "ONLINE_PREDICTION"


class Capability(WireModel):
    """``GoogleCloudMlV1__Capability``."""

    available_accelerators: list[AcceleratorType] | None = None
    type: CapabilityType | None = None


class Location(WireModel):
    """``GoogleCloudMlV1__Location``: ``name`` is ``projects/P/locations/REGION``."""

    capabilities: list[Capability] | None = None
    name: str | None = None


class ListLocationsResponse(WireModel):
    """``GoogleCloudMlV1__ListLocationsResponse``."""

    locations: list[Location] | None = None
    next_page_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """
    A region.

    ``certain``: a source names it for training. Otherwise it is known for prediction only.
    """

    name: str
    certain: bool = False


#: Training's own list is no longer served [unverified]. us-central1: the guide's commands; the others: the
#: regional endpoints of prediction [docs:
#: cloud.google.com/sdk/gcloud/reference/ai-platform/operations/describe].
REGIONS: tuple[Region, ...] = (
    Region(name="asia-east1"),
    Region(name="asia-northeast1"),
    Region(name="asia-southeast1"),
    Region(name="australia-southeast1"),
    Region(name="europe-west1"),
    Region(name="europe-west2"),
    Region(name="europe-west3"),
    Region(name="europe-west4"),
    Region(name="northamerica-northeast1"),
    Region(name="us-central1", certain=True),
    Region(name="us-east1"),
    Region(name="us-east4"),
    Region(name="us-west1"),
)


def location_of(project: str, region: Region) -> Location:
    """
    Return the API's resource. Pure.

    Every region trains, and none has accelerators: all are this machine.
    """
    return Location(
        name=f"projects/{project}/locations/{region.name}",
        capabilities=[Capability(type=CapabilityType.TRAINING)],
    )
