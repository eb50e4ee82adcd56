"""Counting GPUs and dealing them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from container_engines.docker.gpus import GPUS_LABEL, count_gpus, device_request, free_gpus
from training_api.errors import EngineError


def container(gpus: str, state: str = "running") -> dict[str, Any]:
    return {"State": state, "Labels": {GPUS_LABEL: gpus} if gpus else {}}


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, 0),
        ({"Runtimes": {"runc": {}}, "DiscoveredDevices": None}, 0),
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, 2),
        (
            {
                "DiscoveredDevices": [
                    {"Source": "cdi", "ID": "nvidia.com/gpu=0"},
                    {"Source": "cdi", "ID": "nvidia.com/gpu=GPU-1b2c"},
                    {"Source": "cdi", "ID": "nvidia.com/gpu=all"},
                    {"Source": "cdi", "ID": "vendor.com/net=0"},
                ]
            },
            1,
        ),
    ],
)
def test_gpus_are_counted_by_what_the_engine_and_the_driver_tell(
    info: dict[str, Any], expected: int, tmp_path: Path
) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()

    assert count_gpus(info, tmp_path) == expected


def test_a_runtime_without_a_driver_has_none(tmp_path: Path) -> None:
    assert count_gpus({"Runtimes": {"nvidia": {}}}, tmp_path / "absent") == 0


def test_what_a_live_container_has_is_taken() -> None:
    containers = [container("0"), container(""), container("1,2", "exited"), container("3", "created")]

    assert free_gpus(2, 5, containers) == ["1", "2"]


def test_fewer_than_asked_for_is_an_error_that_counts() -> None:
    with pytest.raises(EngineError, match="2 GPUs are needed and 1 of 2 are free"):
        free_gpus(2, 2, [container("0")])


def test_devices_are_requested_by_name() -> None:
    assert device_request(["1", "2"]) == {
        "Driver": "nvidia",
        "Count": 0,
        "DeviceIDs": ["1", "2"],
        "Capabilities": [["gpu"]],
        "Options": {},
    }
