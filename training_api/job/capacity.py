"""
How much of this machine a job's replicas get, and whether one more job fits.

A machine type is a limit that a container may reach, not a reservation that it holds: a machine is promised
to its jobs ``overcommit`` times over. A job that is larger than all of that is scaled down, so that it runs,
and never waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from training_api.job.machines import MachineType, Resources, fit

#: Less than this no container gets, however many share the machine: an interpreter must at least start.
MIN_CPUS = 0.05
MIN_MEMORY_BYTES = 64 * 1024**2
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """
    What may be promised to the jobs that run side by side.

    :param each: what one container may have at most.
    :param total: what all containers together may have; its GPUs are never promised twice.
    :param replicas: how many containers there may be; 0: any number.
    :param networks: how many jobs may have a network at the same time; 0: any number.
    """

    each: Resources
    total: Resources
    replicas: int = 0
    networks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What jobs hold: containers, cores, bytes, GPUs and networks."""

    replicas: int = 0
    cpus: float = 0.0
    memory_bytes: int = 0
    gpus: int = 0
    networks: int = 0

    def __add__(self, other: Load) -> Load:
        return Load(
            replicas=self.replicas + other.replicas,
            cpus=self.cpus + other.cpus,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            gpus=self.gpus + other.gpus,
            networks=self.networks + other.networks,
        )

    def __mul__(self, jobs: int) -> Load:
        return Load(
            replicas=self.replicas * jobs,
            cpus=self.cpus * jobs,
            memory_bytes=self.memory_bytes * jobs,
            gpus=self.gpus * jobs,
            networks=self.networks * jobs,
        )


class Wanted(Protocol):
    """What is to be granted: a machine type, and accelerators; a ``ReplicaSpec`` is one."""

    @property
    def machine(self) -> MachineType:
        """The machine type."""

    @property
    def gpus(self) -> int:
        """Accelerators of one replica."""


def grants(replicas: Sequence[Wanted], capacity: Capacity) -> list[Resources]:
    """
    Return what each replica of one job gets, in their order.

    Pure. Each gets its machine type, cut to what one container may have; if all of them together are more
    than the whole capacity, every one is cut by the same factor.
    """
    fitted = [fit(replica.machine, capacity.each) for replica in replicas]
    cpu_share = _share(sum(each.cpus for each in fitted), capacity.total.cpus)
    memory_share = _share(sum(each.memory_bytes for each in fitted), capacity.total.memory_bytes)
    return [
        Resources(
            cpus=max(each.cpus * cpu_share, MIN_CPUS),
            memory_bytes=max(int(each.memory_bytes * memory_share), MIN_MEMORY_BYTES),
            gpus=min(replica.gpus, capacity.total.gpus),
        )
        for replica, each in zip(replicas, fitted, strict=True)
    ]


def load_of(granted: Iterable[Resources]) -> Load:
    """Return what replicas hold that got ``granted``. Pure."""
    load = Load()
    for each in granted:
        load += Load(replicas=1, cpus=each.cpus, memory_bytes=each.memory_bytes, gpus=each.gpus)
    return load


def has_room(used: Load, job: Load, capacity: Capacity) -> bool:
    """
    Tell whether ``job`` may start beside what is ``used``.

    A job that has the machine to itself always may.

    Pure. All of a job's replicas are counted: it starts whole or not at all.
    """
    if not used.replicas:
        return True
    both = used + job
    total = capacity.total
    return (
        (not capacity.replicas or both.replicas <= capacity.replicas)
        and both.cpus <= total.cpus * (1 + _ROUNDING)
        and both.memory_bytes <= total.memory_bytes * (1 + _ROUNDING)
        and both.gpus <= total.gpus
        and (not capacity.networks or both.networks <= capacity.networks)
    )


def _share(wanted: float, available: float) -> float:
    return min(available / wanted, 1.0) if wanted else 1.0
