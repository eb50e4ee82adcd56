"""The label by which a job says how its replicas are put on machines. Pure."""

from __future__ import annotations

from training_api.errors import InvalidJobSpec
from training_api.job.job_spec import JobSpec
from training_api.job.placement import Placement

#: A label of the job: neither API has a field for it.
PLACEMENT_LABEL = "container-training-placement"


def check_placement(spec: JobSpec) -> None:
    """Check that the job's label names a placement. :raises InvalidJobSpec: it does not."""
    value = spec.labels.get(PLACEMENT_LABEL)
    if value is not None and value not in list(Placement):
        raise InvalidJobSpec.of(
            "labels", f"{PLACEMENT_LABEL} must be one of {', '.join(Placement)}, got {value!r}"
        )


def placement_of(spec: JobSpec, preferred: Placement) -> Placement:
    """Return how the job's replicas are put on machines: as it says, else as ``preferred``."""
    value = spec.labels.get(PLACEMENT_LABEL)
    return Placement(value) if value in list(Placement) else preferred
