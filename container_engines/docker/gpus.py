"""
GPUs on a Docker Engine: how many there are, and which of them a container gets.

The engine does not count GPUs: it lends a device to every container that asks for it. So each container of a
job gets devices by name and carries their names as a label; devices that a live container carries are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from docker.types import DeviceRequest

from training_api.errors import GpusTaken

GPUS_LABEL = "container-training.gpus"
#: One folder a GPU; made by NVIDIA's kernel driver.
DRIVER_FOLDER = Path("/proc/driver/nvidia/gpus")
_CDI_KIND = "nvidia.com/gpu="


def count_gpus(info: Mapping[str, Any], driver_folder: Path = DRIVER_FOLDER) -> int:
    """
    Return how many GPUs containers of the engine can have.

    :param info: the engine's ``/info``. Newer engines list their CDI devices. Older ones only have a runtime
        ``nvidia``; then this machine's driver is asked.
    """
    names = {str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or ()}
    listed = {
        name for name in names if name.removeprefix(_CDI_KIND).isdecimal() and name.startswith(_CDI_KIND)
    }
    if listed:
        return len(listed)
    if "nvidia" in (info.get("Runtimes") or {}) and driver_folder.is_dir():
        return sum(1 for _ in driver_folder.iterdir())
    return 0


def gpus_of(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the GPUs that a container with these labels has. Pure."""
    return tuple(name for name in labels.get(GPUS_LABEL, "").split(",") if name)


def free_gpus(count: int, total: int, containers: Iterable[Mapping[str, Any]]) -> list[str]:
    """
    Return the names of ``count`` GPUs that no live container has.

    Pure.

    :param containers: the engine's list of containers, in any state.
    :raises GpusTaken: fewer are free.
    """
    taken = {
        name
        for container in containers
        if container["State"] not in ("exited", "dead")
        for name in gpus_of(container["Labels"])
    }
    free = [str(place) for place in range(total) if str(place) not in taken]
    if len(free) < count:
        raise GpusTaken(f"{count} GPUs are needed and {len(free)} of {total} are free")
    return free[:count]


def device_request(names: Iterable[str]) -> DeviceRequest:
    """Return the request for these GPUs, as ``docker run --gpus device=0,1`` makes it."""
    return DeviceRequest(driver="nvidia", device_ids=list(names), capabilities=[["gpu"]])
