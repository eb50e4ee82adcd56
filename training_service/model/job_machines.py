"""The machines of a job: their share of the capacity, their name, their cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training_api.job.capacity import Capacity, Load, grants, load_of
from training_api.job.machines import MachineType, Resources
from training_api.job.newer_machines import ALL_MACHINE_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMachines:
    """
    What the replicas of one role run on; the first role of a job is its master.

    :param machine: a machine type, perhaps one that this version does not know.
    :param gpus: of each replica, those that come with the machine included.
    :param gpu: what they are; empty: it has none.
    """

    machine: str
    count: int
    gpus: int = 0
    gpu: str = ""

    @property
    def accelerators(self) -> int:
        """How many accelerators were added to each machine; those that come with it are none."""
        known = ALL_MACHINE_TYPES.get(self.machine)
        return self.gpus if self.gpu and not (known and known.gpus) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    machine: MachineType
    gpus: int


def promised_room(roles: Sequence[RoleMachines], capacity: Capacity | None) -> Load:
    """
    Return what one run of a job holds from PREPARING to its end.

    A machine type that is not known here counts as a replica without size.

    :param capacity: machines are cut to it, as the service does; ``None``: they have their full size.
    """
    machines: list[_Machine] = []
    unknown = 0
    for role in roles:
        machine = ALL_MACHINE_TYPES.get(role.machine)
        if machine is None:
            unknown += role.count
        else:
            machines += [_Machine(machine=machine, gpus=role.gpus)] * role.count
    if capacity is None:
        load = load_of(
            Resources(cpus=each.machine.cpus, memory_bytes=each.machine.memory_bytes, gpus=each.gpus)
            for each in machines
        )
    else:
        load = load_of(grants(machines, capacity))
    return load + Load(replicas=unknown)


def machines_name(roles: Sequence[RoleMachines]) -> str:
    """
    Return the master's machine type, with its accelerators.

    ``n1-standard-8 + 2 x NVIDIA_TESLA_T4``.
    """
    if not roles:
        return "unknown"
    master = roles[0]
    return master.machine + (f" + {master.accelerators} x {master.gpu}" if master.accelerators else "")


def cost_per_second(roles: Sequence[RoleMachines], prices: Mapping[str, float]) -> float | None:
    """
    Return what the machines of one run cost; ``None``: one of them has no price.

    A machine type that comes with GPUs has one price for both, as in the Airflow side's ``PriceList``.

    :param prices: machine type or accelerator -> price per second of one.
    """
    parts = [(role.machine, role.count) for role in roles]
    parts += [(role.gpu, role.count * role.accelerators) for role in roles if role.accelerators]
    if not parts or any(name not in prices for name, _ in parts):
        return None
    return sum(amount * prices[name] for name, amount in parts)
