"""Stands in for ``pynvml`` in the agents' image: a driver with one busy GPU."""

from __future__ import annotations

from types import SimpleNamespace

UUID = "GPU-45cbf7b3-8d2e-4f6a-9c1b-0123456789ab"
BUSY_PERCENT, MEMORY_BYTES = 75, 3 << 30
NVML_ERROR_NOT_FOUND, nvmlMemory_v2 = 6, 2  # noqa: N816  # NVIDIA's names


class NVMLError(Exception):
    """As the driver's."""


class NVMLError_FunctionNotFound(NVMLError):  # noqa: N801
    """As the driver's."""


def nvmlInit() -> None:  # noqa: N802
    """Do nothing."""


def nvmlDeviceGetCount() -> int:  # noqa: N802
    """Return how many GPUs there are."""
    return 1


def nvmlDeviceGetHandleByIndex(place: int) -> int:  # noqa: N802
    """Return a handle of the GPU at ``place``."""
    return place


def nvmlDeviceGetUUID(handle: int) -> str:  # noqa: N802
    """Return the GPU's UUID."""
    return UUID


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:  # noqa: N802
    """Return how busy the GPU is, in percent."""
    return SimpleNamespace(gpu=BUSY_PERCENT, memory=0)


def nvmlDeviceGetMemoryInfo(handle: int, version: int | None = None) -> SimpleNamespace:  # noqa: N802
    """Return what is in use, in bytes."""
    return SimpleNamespace(used=MEMORY_BYTES)
