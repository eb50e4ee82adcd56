"""
What GPUs do, with a fake of NVIDIA's driver: this machine has none.

The driver's answers are written down here.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from container_engines.base import Usage
from container_engines.docker import engine as engine_module
from container_engines.docker.client import DockerConnection
from container_engines.docker.engine import DockerEngine
from container_engines.docker.gpus import GPUS_LABEL
from container_engines.gpu_meter import GpuMeter, GpuUse, find_nvml
from container_engines.labels import JOB_UID

GIB = 2**30
#: Place in the driver's list -> percent of the time, bytes.
BUSY = {0: (90, 3 * GIB), 1: (35, GIB), 2: (0, 0)}


#: What the driver keeps for itself, and counts only if it is asked without a version.
RESERVED = 600 * 2**20


def memory(place: int, version: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(used=BUSY[place][1] + (0 if version == pynvml.nvmlMemory_v2 else RESERVED))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def handle(place: int) -> int:
        if place not in BUSY:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return place

    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", handle)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: len(BUSY))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda place: f"GPU-{place}5cbf7b3-8d2e")
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetUtilizationRates", lambda place: SimpleNamespace(gpu=BUSY[place][0], memory=0)
    )
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", memory)


def test_gpus_of_a_replica_are_added_up(driver: None) -> None:
    assert GpuMeter().read(["0", "1"]) == GpuUse(gpus=1.25, memory_bytes=4 * GIB)
    assert GpuMeter().read(["2"]) == GpuUse(gpus=0.0, memory_bytes=0)


def test_an_old_driver_counts_what_it_reserves(driver: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(place: int, version: int | None = None) -> SimpleNamespace:
        if version:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return memory(place)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", old)

    assert GpuMeter().read(["2"]) == GpuUse(gpus=0.0, memory_bytes=RESERVED)


def test_gpus_are_named_by_what_their_uuid_begins_with(driver: None) -> None:
    assert GpuMeter().read(["GPU-05cbf7b3-8d2e"]) == GpuUse(gpus=0.9, memory_bytes=3 * GIB)
    assert GpuMeter().read(["GPU-0", "GPU-1"]) == GpuUse(gpus=1.25, memory_bytes=4 * GIB)


@pytest.mark.parametrize("name", ["7", "GPU-7", "GPU-", "not-a-gpu"])
def test_a_gpu_that_the_driver_does_not_know_has_no_use(driver: None, name: str) -> None:
    assert GpuMeter().read(["0", name]) is None


def test_a_machine_without_the_driver_has_no_use() -> None:
    with pytest.raises(pynvml.NVMLError):
        pynvml.nvmlInit()

    assert GpuMeter().read(["0"]) is None


def test_without_the_extra_there_is_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    find_nvml.cache_clear()

    assert GpuMeter().read(["0"]) is None

    find_nvml.cache_clear()


@pytest.mark.parametrize(
    ("labels", "host", "expected"),
    [
        (
            {GPUS_LABEL: "0,1"},
            "unix:///run/docker.sock",
            Usage(cpu_seconds=2, memory_bytes=5, gpus=1.25, gpu_memory_bytes=4 * GIB),
        ),
        ({}, "unix:///run/docker.sock", Usage(cpu_seconds=2, memory_bytes=5)),
        # This machine's driver knows nothing of the GPUs of another.
        ({GPUS_LABEL: "0,1"}, "tcp://gpu-host:2376", Usage(cpu_seconds=2, memory_bytes=5)),
    ],
    ids=["with GPUs", "without", "elsewhere"],
)
def test_use_of_a_container_has_that_of_its_gpus(
    driver: None, monkeypatch: pytest.MonkeyPatch, labels: dict[str, str], host: str, expected: Usage
) -> None:
    own = {JOB_UID: "uid", "container-training.role": "master", "container-training.index": "0"}
    answer: dict[str, Any] = {
        "memory_stats": {"usage": 5},
        "cpu_stats": {"cpu_usage": {"total_usage": 2_000_000_000}},
    }
    client = SimpleNamespace(
        containers=lambda **_: [
            {"Id": "c", "State": "created", "Labels": own | labels, "NetworkSettings": {"Networks": {}}}
        ],
        networks=lambda **_: [],
    )
    monkeypatch.setattr(engine_module, "get", lambda *_, **__: answer)
    monkeypatch.setattr(DockerConnection, "client", client)
    engine = DockerEngine("service", docker_host=host)
    engine.observe()

    assert engine.read_usage("c") == expected
