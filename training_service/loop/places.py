"""Which machine each replica of a job is on, or goes to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from container_engines.base import ObservedReplica
from training_api.job.capacity import Capacity, Granted
from training_api.job.cluster import ReplicaId
from training_api.job.placement import FreeRoom, Placement
from training_service.model.placement_label import placement_of
from training_service.model.records import JobRecord
from training_service.model.work import StartReplicas


class Places:
    """
    The machines of replicas: those that the engine reports, and those chosen for the others.

    :param active: jobs that use capacity, in the order in which they are given machines.
    :param observed: by a job's uid, what the engine reports of it.
    :param preferred: how jobs are placed that do not say.
    """

    def __init__(
        self,
        active: Iterable[JobRecord],
        observed: Mapping[str, Sequence[ObservedReplica]],
        capacity: Capacity,
        granted: Granted,
        preferred: Placement,
    ) -> None:
        self._granted = granted
        self._preferred = preferred
        self._free = FreeRoom(capacity.rooms)
        self._machines: dict[str, dict[ReplicaId, str]] = {}
        jobs = [job for job in active if not job.spec.study]
        for job in jobs:
            # First all that have a machine: no other is chosen for these.
            self._machines[job.uid] = self._take(job, observed.get(job.uid, ()))
        for job in jobs:
            self._choose(job)

    def admit(self, job: JobRecord) -> bool:
        """Put all replicas of a queued job on machines; return whether there is room for them."""
        return (
            self._free.put(self._granted.of(job.spec.replicas), placement_of(job.spec, self._preferred))
            is not None
        )

    def of(self, action: StartReplicas) -> StartReplicas:
        """Return ``action`` with the machines of its replicas; one without a machine may run on any."""
        known = self._machines.get(action.job.uid, {})
        wanted = {spec.replica for spec in action.replicas}
        return replace(action, machines={who: name for who, name in known.items() if who in wanted})

    def _take(self, job: JobRecord, observed: Sequence[ObservedReplica]) -> dict[ReplicaId, str]:
        machines = {
            each.replica: each.machine
            for each in observed
            if each.machine and each.attempt == job.attempts.of(each.replica)
        }
        for spec, size in zip(job.spec.replicas, self._granted.of(job.spec.replicas), strict=True):
            if spec.replica in machines:
                self._free.take(machines[spec.replica], size)
        return machines

    def _choose(self, job: JobRecord) -> None:
        known = self._machines[job.uid]
        missing = [
            (spec.replica, size)
            for spec, size in zip(job.spec.replicas, self._granted.of(job.spec.replicas), strict=True)
            if spec.replica not in known
        ]
        if missing:
            placement = placement_of(job.spec, self._preferred)
            chosen = self._free.put([size for _, size in missing], placement, known.values())
            known.update(zip((who for who, _ in missing), chosen or (), strict=False))
