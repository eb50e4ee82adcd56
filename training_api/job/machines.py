"""
Machine types and accelerators as data, and how a machine type fits onto this host.

The real tables are no longer served. Sizes of the n1 types: [docs: machine-types-online-prediction];
everything marked ``certain=False`` is [unverified]: recalled or inferred, kept so that a tutorial's job runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from training_api.job.accelerators import Accelerator

GIB = 1024**3
#: The API's machine tables count memory in GB of 2**30 bytes, as Compute Engine does.
BYTES_PER_GB = GIB
#: What no container gets, so that the engine, the service and the host stay alive.
HOST_RESERVE_BYTES = GIB


class MachineFamily(StrEnum):
    """
    The two categories of machine types.

    The types of one job are all of one [discovery: masterType, workerType].
    """

    COMPUTE_ENGINE = "Compute Engine machine types"
    LEGACY = "legacy machine types"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineType:
    """
    A machine as the API names it.

    ``cpus`` cores, ``memory_bytes`` bytes, ``gpus`` built-in accelerators.

    :param gpu: the kind of the built-in accelerators; ``None``: it has none.
    """

    name: str
    cpus: int
    memory_bytes: int
    gpus: int = 0
    gpu: Accelerator | None = None
    family: MachineFamily = MachineFamily.COMPUTE_ENGINE
    certain: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What a host has, or what a container gets: cores (may be fractional), bytes, and GPUs."""

    cpus: float
    memory_bytes: int
    gpus: int = 0


def _gce(name: str, cpus: int, memory_gb: float) -> MachineType:
    return MachineType(name=name, cpus=cpus, memory_bytes=int(memory_gb * BYTES_PER_GB))


_N1 = [
    _gce("n1-standard-4", 4, 15),
    _gce("n1-standard-8", 8, 30),
    _gce("n1-standard-16", 16, 60),
    _gce("n1-standard-32", 32, 120),
    _gce("n1-standard-64", 64, 240),
    _gce("n1-standard-96", 96, 360),
    _gce("n1-highmem-2", 2, 13),
    _gce("n1-highmem-4", 4, 26),
    _gce("n1-highmem-8", 8, 52),
    _gce("n1-highmem-16", 16, 104),
    _gce("n1-highmem-32", 32, 208),
    _gce("n1-highmem-64", 64, 416),
    _gce("n1-highmem-96", 96, 624),
    _gce("n1-highcpu-8", 8, 7.2),
    _gce("n1-highcpu-16", 16, 14.4),
    _gce("n1-highcpu-32", 32, 28.8),
    _gce("n1-highcpu-64", 64, 57.6),
    _gce("n1-highcpu-96", 96, 86.4),
]
_BY_NAME = {machine.name: machine for machine in _N1}


def _legacy(name: str, like: str, gpus: int = 0, gpu: Accelerator | None = None) -> MachineType:
    base = _BY_NAME[like]
    return MachineType(
        name=name,
        cpus=base.cpus,
        memory_bytes=base.memory_bytes,
        gpus=gpus,
        gpu=gpu,
        family=MachineFamily.LEGACY,
        certain=False,
    )


_K80, _P100 = Accelerator.NVIDIA_TESLA_K80, Accelerator.NVIDIA_TESLA_P100
_V100, _A100 = Accelerator.NVIDIA_TESLA_V100, Accelerator.NVIDIA_TESLA_A100
_LEGACY = [
    _legacy("standard", "n1-standard-4"),
    _legacy("large_model", "n1-highmem-8"),
    _legacy("complex_model_s", "n1-highcpu-8"),
    _legacy("complex_model_m", "n1-highcpu-16"),
    _legacy("complex_model_l", "n1-highcpu-32"),
    _legacy("standard_gpu", "n1-standard-8", 1, _K80),
    _legacy("standard_p100", "n1-standard-8", 1, _P100),
    _legacy("standard_v100", "n1-standard-8", 1, _V100),
    _legacy("large_model_v100", "n1-highmem-8", 1, _V100),
    _legacy("complex_model_m_gpu", "n1-standard-16", 4, _K80),
    _legacy("complex_model_m_p100", "n1-standard-16", 4, _P100),
    _legacy("complex_model_m_v100", "n1-standard-16", 4, _V100),
    _legacy("complex_model_l_gpu", "n1-standard-32", 8, _K80),
    _legacy("complex_model_l_v100", "n1-standard-32", 8, _V100),
]


def _a2(gpus: int, cpus: int, memory_gb: int, size: str = "highgpu") -> MachineType:
    memory = memory_gb * BYTES_PER_GB
    name = f"a2-{size}-{gpus}g"
    return MachineType(name=name, cpus=cpus, memory_bytes=memory, gpus=gpus, gpu=_A100, certain=False)


#: The machines that A100 come with. That training took them, and their sizes, are recalled [unverified].
_A2 = [_a2(1, 12, 85), _a2(2, 24, 170), _a2(4, 48, 340), _a2(8, 96, 680), _a2(16, 96, 1360, "megagpu")]

#: Machine types by the name used in ``masterType``, ``workerType`` ...
MACHINE_TYPES: Mapping[str, MachineType] = {machine.name: machine for machine in [*_N1, *_A2, *_LEGACY]}

#: Asks for a TPU in ``masterType`` or ``workerType`` [discovery]. There is no size to it.
TPU_MACHINE = "cloud_tpu"

#: How many accelerators of a kind one machine may have [docs: using-gpus, recalled: unverified].
ACCELERATOR_COUNTS: Mapping[Accelerator, tuple[int, ...]] = {
    _K80: (1, 2, 4, 8),
    Accelerator.NVIDIA_TESLA_P4: (1, 2, 4),
    _P100: (1, 2, 4),
    Accelerator.NVIDIA_TESLA_T4: (1, 2, 4),
    _V100: (1, 2, 4, 8),
    _A100: (1, 2, 4, 8, 16),
}


def usable(host: Resources, *, cpu_limit: float = 0, memory_limit_bytes: int = 0) -> Resources:
    """
    Return what one container may have of ``host``.

    Less a reserve for the host itself, and within the limits.

    Pure. On a tiny host the reserve is three quarters of the memory at most. A limit of 0 is none.
    """
    memory = max(host.memory_bytes - HOST_RESERVE_BYTES, host.memory_bytes // 4)
    return Resources(
        cpus=min(host.cpus, cpu_limit or host.cpus),
        memory_bytes=min(memory, memory_limit_bytes or memory),
        gpus=host.gpus,
    )


def fit(machine: MachineType, available: Resources) -> Resources:
    """
    Return what a container of ``machine`` gets.

    The machine's size, never more than what is ``available``.

    Pure.
    """
    return Resources(
        cpus=min(machine.cpus, available.cpus),
        memory_bytes=min(machine.memory_bytes, available.memory_bytes),
    )


def is_scaled_down(machine: MachineType, granted: Resources) -> bool:
    """Whether ``granted`` is less than ``machine`` promises."""
    return granted.cpus < machine.cpus or granted.memory_bytes < machine.memory_bytes
