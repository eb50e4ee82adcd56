"""
How much of this machine a job's replicas get, and whether one more job fits.

A machine type is a limit that a container may reach, not a reservation that it holds: a machine is promised
to its jobs ``overcommit`` times over. A job that is larger than all of that is scaled down, so that it runs,
and never waits for ever. Of several machines, each container has to fit on one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from training_api.job.machines import MachineType, Resources, fit
from training_api.job.placement import ROUNDING, FreeRoom, MachineRoom, Placement

#: Less than this no container gets, however many share the machine: an interpreter must at least start.
MIN_CPUS = 0.05
MIN_MEMORY_BYTES = 64 * 1024**2
#: How often the share is halved by which the replicas of a job are made smaller until each has a machine.
_HALVINGS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """
    What may be promised to the jobs that run side by side.

    :param each: what one container may have at most.
    :param total: what all containers together may have; its GPUs are never promised twice.
    :param replicas: how many containers there may be; 0: any number.
    :param networks: how many jobs may have a network at the same time; 0: any number.
    :param shares_network: whether all jobs of one replica share one network.
    :param job_replicas: how many containers one job may have, as its network has addresses; 0: any number.
    :param machines: the room of each machine, by the engine's id; empty: there is one, without an id.
    :param overcommit: how many times over ``total`` is there.
    """

    each: Resources
    total: Resources
    replicas: int = 0
    networks: int = 0
    shares_network: bool = False
    job_replicas: int = 0
    machines: Mapping[str, MachineRoom] = field(default_factory=dict)
    overcommit: float = 1.0

    @property
    def rooms(self) -> Mapping[str, MachineRoom]:
        """The room of each machine, of which there is at least one."""
        return self.machines or {"": MachineRoom(each=self.each, total=self.total)}

    def reserved(self, granted: Resources) -> Resources:
        """Return what a machine keeps for a container that got ``granted``."""
        return Resources(
            cpus=granted.cpus / self.overcommit,
            memory_bytes=int(granted.memory_bytes / self.overcommit),
            gpus=granted.gpus,
        )


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

    Pure. Each gets its machine type, cut to what the machine that suits it best has. If all of them together
    are more than the whole capacity, or cannot all be put on machines that are empty, every one is cut by the
    same factor.
    """
    fitted = [_best_fit(replica, capacity) for replica in replicas]
    cpu_share = _share(sum(each.cpus for each in fitted), capacity.total.cpus)
    memory_share = _share(sum(each.memory_bytes for each in fitted), capacity.total.memory_bytes)
    granted = [_cut(each, cpu_share, memory_share) for each in fitted]
    if len(capacity.rooms) == 1 or _fits_empty(granted, capacity):
        return granted
    # Between a factor that is small enough and one that is too large.
    small, large = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (small + large) / 2
        if _fits_empty([_cut(each, middle, middle) for each in granted], capacity):
            small = middle
        else:
            large = middle
    # No size helps where GPUs are missing: such a job waits, as large as it is.
    return [_cut(each, small, small) for each in granted] if small else granted


class Granted:
    """What replicas get; computed once for all jobs that are alike, as many of a thousand are."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        # By machine type and accelerators of each replica, which decide.
        self._known: dict[tuple[tuple[str, int], ...], list[Resources]] = {}

    def of(self, replicas: Sequence[Wanted]) -> list[Resources]:
        """Return what :func:`grants` does."""
        shape = tuple((replica.machine.name, replica.gpus) for replica in replicas)
        if shape not in self._known:
            self._known[shape] = grants(replicas, self._capacity)
        return self._known[shape]


def _best_fit(replica: Wanted, capacity: Capacity) -> Resources:
    """Return the machine type cut to the machine that has most of it, among those with its GPUs."""
    gpus = min(replica.gpus, capacity.total.gpus)
    wanted = replica.machine

    def rank(room: MachineRoom) -> tuple[bool, float]:
        there = fit(wanted, room.each)
        return room.total.gpus >= gpus, min(
            there.cpus / wanted.cpus, there.memory_bytes / wanted.memory_bytes
        )

    best = fit(wanted, max(capacity.rooms.values(), key=rank).each)
    return Resources(cpus=best.cpus, memory_bytes=best.memory_bytes, gpus=gpus)


def _cut(size: Resources, cpu_share: float, memory_share: float) -> Resources:
    return Resources(
        cpus=max(size.cpus * cpu_share, MIN_CPUS),
        memory_bytes=max(int(size.memory_bytes * memory_share), MIN_MEMORY_BYTES),
        gpus=size.gpus,
    )


def _fits_empty(granted: Sequence[Resources], capacity: Capacity) -> bool:
    return FreeRoom(capacity.rooms).put(granted, Placement.PACK) is not None


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

    Pure. All of a job's replicas are counted: it starts whole or not at all. Of several machines only the
    sums are looked at: where each replica goes is ``FreeRoom``'s to say.
    """
    if not used.replicas:
        return True
    both = used + job
    total = capacity.total
    return (
        (not capacity.replicas or both.replicas <= capacity.replicas)
        and both.cpus <= total.cpus * (1 + ROUNDING)
        and both.memory_bytes <= total.memory_bytes * (1 + ROUNDING)
        and both.gpus <= total.gpus
        and (not capacity.networks or both.networks <= capacity.networks)
    )


def _share(wanted: float, available: float) -> float:
    return min(available / wanted, 1.0) if wanted else 1.0
