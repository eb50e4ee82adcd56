"""What a job's machines hold of the service's capacity, from a row of ``jobs:search``."""

from __future__ import annotations

from dataclasses import dataclass

from training_api.dialects.ml_v1.resources import ReplicaConfig, ScaleTier, TrainingInput
from training_api.dialects.ml_v1.roles import MASTER, machines_of
from training_api.fleet.wire import Room
from training_api.job.capacity import Capacity, Load, grants, load_of
from training_api.job.machines import MACHINE_TYPES, MachineType, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    machine: MachineType
    gpus: int


def capacity_from(total: Room, largest: Room | None) -> Capacity:
    """
    Return the room of a service as its loop reckons with it. Pure.

    :param largest: what one container may have; ``None``, from an older service: all.
    """
    each = largest or total
    return Capacity(
        each=Resources(cpus=each.cpus, memory_bytes=each.memory_bytes, gpus=each.gpus),
        total=Resources(cpus=total.cpus, memory_bytes=total.memory_bytes, gpus=total.gpus),
        replicas=total.replicas,
    )


def promised_room(training: TrainingInput, capacity: Capacity | None) -> Load:
    """
    Return what one run of the job holds from PREPARING to its end.

    For a tuning job: what one trial holds.

    Pure. A machine type that is not known here counts as a replica without size.

    :param capacity: machines are cut to it, as the service does; ``None``: they have their full size.
    """
    machines: list[_Machine] = []
    unknown = 0
    for role in machines_of(training):
        machine = MACHINE_TYPES.get(role.machine)
        if machine is None:
            unknown += max(role.count, 0)
        else:
            machines += [_Machine(machine=machine, gpus=_gpus(machine, role.config))] * max(role.count, 0)
    if capacity is None:
        load = load_of(
            Resources(cpus=each.machine.cpus, memory_bytes=each.machine.memory_bytes, gpus=each.gpus)
            for each in machines
        )
    else:
        load = load_of(grants(machines, capacity))
    return load + Load(replicas=unknown)


def machine_type(training: TrainingInput) -> str:
    """
    Return the master's machine type, with its accelerators. Pure.

    ``n1-standard-8 + 2 x NVIDIA_TESLA_T4``.
    """
    master = next(machines_of(training), None)
    name = (master and master.machine) or (training.scale_tier or ScaleTier.CUSTOM).value
    config = MASTER.config_of(training)
    accelerator = config.accelerator_config if config else None
    if accelerator and accelerator.type and accelerator.count:
        return f"{name} + {accelerator.count} x {accelerator.type.value}"
    return name


def _gpus(machine: MachineType, config: ReplicaConfig | None) -> int:
    accelerator = config.accelerator_config if config else None
    return machine.gpus or (accelerator.count or 0 if accelerator else 0)
