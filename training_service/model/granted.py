"""What each replica of a job gets of the machines. Pure."""

from __future__ import annotations

from training_api.job.capacity import Capacity, grants
from training_api.job.machines import Resources
from training_service.model.records import JobRecord

#: What decides how much a job holds: of each replica the machine type, and how many accelerators.
Shape = tuple[tuple[str, int], ...]


class Granted:
    """What jobs get; computed once for all that are alike, as many of a thousand are."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._known: dict[Shape, list[Resources]] = {}

    def of(self, job: JobRecord) -> list[Resources]:
        """Return what each replica of the job gets, in their order."""
        shape = tuple((replica.machine.name, replica.gpus) for replica in job.spec.replicas)
        if shape not in self._known:
            self._known[shape] = grants(job.spec.replicas, self._capacity)
        return self._known[shape]
