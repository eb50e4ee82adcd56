"""On which of several machines containers are put, each on one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from training_api.job.machines import Resources

#: Sums of shares of a machine are compared with this tolerance.
ROUNDING = 1e-6


class Placement(StrEnum):
    """How the replicas of one job are put on machines."""

    SPREAD = "spread"  #: on as many machines as they can be
    PACK = "pack"  #: on as few machines as they can be


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRoom:
    """
    The room of one machine.

    :param each: what one container may have at most.
    :param total: what all containers on it may be promised; its GPUs are never promised twice.
    """

    each: Resources
    total: Resources


class FreeRoom:
    """
    What is left of machines as containers are put on them.

    :param rooms: by the engine's id of the machine.
    """

    def __init__(self, rooms: Mapping[str, MachineRoom]) -> None:
        self._rooms = rooms
        self._used = dict.fromkeys(rooms, Resources(cpus=0.0, memory_bytes=0))

    def take(self, machine: str, size: Resources) -> None:
        """Count a container of ``size`` that is on ``machine``; one of no room here counts nowhere."""
        if machine in self._used:
            self._used[machine] = _sum(self._used[machine], size)

    def put(
        self, sizes: Sequence[Resources], placement: Placement, beside: Iterable[str] = ()
    ) -> list[str] | None:
        """
        Put all containers of one job on machines; return the machine of each, in their order.

        The largest is put first. Where spreading leaves one without a machine, packing is tried.

        :param beside: the machines of the job's containers that have one already, once for each.
        :return: ``None``: they do not all fit, and none was put anywhere.
        """
        before, counts = dict(self._used), Counter(beside)
        orders = [Placement.PACK] if placement is Placement.PACK else [Placement.SPREAD, Placement.PACK]
        for order in orders:
            machines = self._put(sizes, order, Counter(counts))
            if machines is not None:
                return machines
            self._used = dict(before)
        return None

    def _put(
        self, sizes: Sequence[Resources], placement: Placement, counts: Counter[str]
    ) -> list[str] | None:
        chosen = [""] * len(sizes)
        for place in sorted(range(len(sizes)), key=lambda place: self._weight(sizes[place]), reverse=True):
            able = [machine for machine in self._rooms if self._has_room(machine, sizes[place])]
            if not able:
                return None
            sign = 1 if placement is Placement.SPREAD else -1
            machine = min(
                able,
                key=lambda each: (
                    not sizes[place].gpus and self._rooms[each].total.gpus > 0,  # GPUs stay free for others
                    sign * counts[each],
                    sign * self._fullness(each),
                ),
            )
            self.take(machine, sizes[place])
            counts[machine] += 1
            chosen[place] = machine
        return chosen

    def _has_room(self, machine: str, size: Resources) -> bool:
        room, then = self._rooms[machine], _sum(self._used[machine], size)
        return (
            size.cpus <= room.each.cpus * (1 + ROUNDING)
            and size.memory_bytes <= room.each.memory_bytes
            and then.cpus <= room.total.cpus * (1 + ROUNDING)
            and then.memory_bytes <= room.total.memory_bytes * (1 + ROUNDING)
            and then.gpus <= room.total.gpus
        )

    def _weight(self, size: Resources) -> tuple[int, float]:
        """Return what is put before what: GPUs first, then the share of the largest machine."""
        cpus = max(room.total.cpus for room in self._rooms.values())
        memory = max(room.total.memory_bytes for room in self._rooms.values())
        return size.gpus, max(_share(size.cpus, cpus), _share(size.memory_bytes, memory))

    def _fullness(self, machine: str) -> float:
        used, total = self._used[machine], self._rooms[machine].total
        return max(_share(used.cpus, total.cpus), _share(used.memory_bytes, total.memory_bytes))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _sum(one: Resources, other: Resources) -> Resources:
    return Resources(
        cpus=one.cpus + other.cpus,
        memory_bytes=one.memory_bytes + other.memory_bytes,
        gpus=one.gpus + other.gpus,
    )
