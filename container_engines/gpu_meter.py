"""Reads what this machine's GPUs do from NVIDIA's driver; another machine's cannot be asked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import structlog

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GpuUse:
    """
    What some GPUs do together.

    :param gpus: the sum of each GPU's busy share, 0.0 to their count. The driver measures over its last
        sample period, between 1/6 s and 1 s, whether any kernel ran, not how many [NVML: nvmlUtilization_t].
    :param memory_bytes: in use by all processes; drivers before 510 count what they reserve for themselves,
        too.
    """

    gpus: float
    memory_bytes: int


class GpuMeter:
    """Asks the driver, which is loaded on first use; safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_loaded = False

    def read(self, names: Sequence[str]) -> GpuUse | None:
        """
        Return what the GPUs do; ``None``: the driver cannot tell, e.g. for slices of one (MIG).

        Without the extra ``gpu`` nothing here can ask the driver, and the answer is ``None``, too.

        :param names: of each its index in the driver's list (``0``, ``1``, ...), or what its UUID begins with
            (``GPU-45cbf7b3``).
        """
        nvml = find_nvml()
        if nvml is None:
            return None
        try:
            with self._lock:
                if not self._is_loaded:
                    nvml.nvmlInit()
                    self._is_loaded = True
            handles = [_handle(nvml, name) for name in names]
            return GpuUse(
                gpus=sum(nvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in handles) / 100,
                memory_bytes=sum(_memory_in_use(nvml, handle) for handle in handles),
            )
        except nvml.NVMLError as error:
            # Nothing depends on samples, and each of them would say the same.
            logger.debug("GPUs not sampled", gpus=list(names), reason=str(error))
            return None


def _handle(nvml: Any, name: str) -> Any:
    """Return the driver's handle. :raises NVMLError: it has no such GPU, or several."""
    if name.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    every = (nvml.nvmlDeviceGetHandleByIndex(place) for place in range(nvml.nvmlDeviceGetCount()))
    found = [handle for handle in every if nvml.nvmlDeviceGetUUID(handle).startswith(name)]
    if len(found) != 1:
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_FOUND)
    return found[0]


def _memory_in_use(nvml: Any, handle: Any) -> int:
    try:
        # Without a version, what the driver reserves counts: 615 MiB of an idle H200 (seen with 580).
        return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    except nvml.NVMLError_FunctionNotFound:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)


@cache
def find_nvml() -> Any | None:
    """Return the module that asks NVIDIA's driver; ``None``, with one warning, if it is missing."""
    try:
        import pynvml
    except ModuleNotFoundError:
        logger.warning("GPUs are not sampled: nvidia-ml-py is missing; install container-training-api[gpu]")
        return None
    return pynvml
