"""
Machine types that came after AI Platform Training, as data. Pure.

Which of them train: [docs: Vertex AI, training/configure-compute]. Their sizes: [docs: Compute Engine,
machine families]; those of the machines with GPUs are recalled [unverified].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from training_api.job.accelerators import Accelerator
from training_api.job.machines import BYTES_PER_GB, MACHINE_TYPES, MachineFamily, MachineType

#: Series and shape -> GB a core, and the numbers of cores.
_BY_CORE: Mapping[str, tuple[float, tuple[int, ...]]] = {
    "e2-standard": (4, (4, 8, 16, 32)),
    "e2-highmem": (8, (2, 4, 8, 16)),
    "e2-highcpu": (1, (16, 32)),
    "n2-standard": (4, (4, 8, 16, 32, 48, 64, 80)),
    "n2-highmem": (8, (2, 4, 8, 16, 32, 48, 64, 80)),
    "n2-highcpu": (1, (16, 32, 48, 64, 80)),
    "n4-standard": (4, (2, 4, 8, 16, 32, 48, 64, 80)),
    "n4-highmem": (8, (2, 4, 8, 16, 32, 48, 64, 80)),
    "n4-highcpu": (2, (2, 4, 8, 16, 32, 48, 64, 80)),
    "c2-standard": (4, (4, 8, 16, 30, 60)),
}
#: Cores and GB.
_MEMORY: Mapping[str, tuple[int, float]] = {
    "m1-ultramem-40": (40, 961),
    "m1-ultramem-80": (80, 1922),
    "m1-ultramem-160": (160, 3844),
    "m1-megamem-96": (96, 1433.6),
}
#: Cores, GB, and the GPUs that it comes with.
_WITH_GPUS: Mapping[str, tuple[int, float, int, Accelerator]] = {
    "a2-ultragpu-1g": (12, 170, 1, Accelerator.NVIDIA_A100_80GB),
    "a2-ultragpu-2g": (24, 340, 2, Accelerator.NVIDIA_A100_80GB),
    "a2-ultragpu-4g": (48, 680, 4, Accelerator.NVIDIA_A100_80GB),
    "a2-ultragpu-8g": (96, 1360, 8, Accelerator.NVIDIA_A100_80GB),
    "a3-highgpu-1g": (26, 234, 1, Accelerator.NVIDIA_H100_80GB),
    "a3-highgpu-2g": (52, 468, 2, Accelerator.NVIDIA_H100_80GB),
    "a3-highgpu-4g": (104, 936, 4, Accelerator.NVIDIA_H100_80GB),
    "a3-highgpu-8g": (208, 1872, 8, Accelerator.NVIDIA_H100_80GB),
    "a3-megagpu-8g": (208, 1872, 8, Accelerator.NVIDIA_H100_MEGA_80GB),
    "a3-ultragpu-8g": (224, 2952, 8, Accelerator.NVIDIA_H200_141GB),
    "a4-highgpu-8g": (224, 3968, 8, Accelerator.NVIDIA_B200),
    "a4x-highgpu-4g": (140, 884, 4, Accelerator.NVIDIA_GB200),
    "g2-standard-4": (4, 16, 1, Accelerator.NVIDIA_L4),
    "g2-standard-8": (8, 32, 1, Accelerator.NVIDIA_L4),
    "g2-standard-12": (12, 48, 1, Accelerator.NVIDIA_L4),
    "g2-standard-16": (16, 64, 1, Accelerator.NVIDIA_L4),
    "g2-standard-24": (24, 96, 2, Accelerator.NVIDIA_L4),
    "g2-standard-32": (32, 128, 1, Accelerator.NVIDIA_L4),
    "g2-standard-48": (48, 192, 4, Accelerator.NVIDIA_L4),
    "g2-standard-96": (96, 384, 8, Accelerator.NVIDIA_L4),
    "g4-standard-48": (48, 180, 1, Accelerator.NVIDIA_RTX_PRO_6000),
    "g4-standard-96": (96, 360, 2, Accelerator.NVIDIA_RTX_PRO_6000),
    "g4-standard-192": (192, 720, 4, Accelerator.NVIDIA_RTX_PRO_6000),
    "g4-standard-384": (384, 1440, 8, Accelerator.NVIDIA_RTX_PRO_6000),
}


def _newer() -> Iterator[MachineType]:
    for shape, (gb, sizes) in _BY_CORE.items():
        for cores in sizes:
            yield _machine(f"{shape}-{cores}", cores, gb * cores)
    for name, (cores, gb) in _MEMORY.items():
        yield _machine(name, cores, gb)
    for name, (cores, gb, gpus, gpu) in _WITH_GPUS.items():
        yield _machine(name, cores, gb, gpus, gpu)


def _machine(name: str, cores: int, gb: float, gpus: int = 0, gpu: Accelerator | None = None) -> MachineType:
    memory = int(gb * BYTES_PER_GB)
    return MachineType(name=name, cpus=cores, memory_bytes=memory, gpus=gpus, gpu=gpu, certain=gpus == 0)


#: Every machine type that any dialect knows: what is stored names one of these.
ALL_MACHINE_TYPES: Mapping[str, MachineType] = {
    **MACHINE_TYPES,
    **{machine.name: machine for machine in _newer()},
}
#: When Vertex AI's table of machine types was read.
VERTEX_TABLE_READ = "2026-11-21"
#: Those of Vertex AI: without the legacy names, and without n1-highcpu-8, which is not in its table.
VERTEX_MACHINE_TYPES: Mapping[str, MachineType] = {
    name: machine
    for name, machine in ALL_MACHINE_TYPES.items()
    if machine.family is MachineFamily.COMPUTE_ENGINE and name != "n1-highcpu-8"
}
