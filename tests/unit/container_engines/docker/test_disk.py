"""Where a container writes to the engine's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_engines.disk_use import DiskUse
from container_engines.docker.disk import can_be_read, folders_of, size_of
from training_api.errors import EngineError


def test_layer_volumes_and_mounted_files_are_where_a_container_writes() -> None:
    inspected = {
        "GraphDriver": {"Name": "overlay2", "Data": {"UpperDir": "/docker/overlay2/x/diff"}},
        "Mounts": [
            {"Type": "volume", "Source": "/docker/volumes/v/_data"},
            {"Type": "bind", "Source": "/somewhere/metrics"},
        ],
        "HostsPath": "/docker/containers/c/hosts",
    }

    assert folders_of(inspected) == [
        Path("/docker/overlay2/x/diff"),
        Path("/docker/volumes/v/_data"),
        Path("/docker/containers/c"),
    ]


@pytest.mark.parametrize("inspected", [{}, {"GraphDriver": None}, {"GraphDriver": {"Data": None}}])
def test_where_the_engine_does_not_say_it_nothing_is_read(inspected: dict[str, object]) -> None:
    assert folders_of(inspected) == []
    assert not can_be_read([])


def test_folders_are_read_only_if_all_are_there(tmp_path: Path) -> None:
    assert can_be_read([tmp_path])
    assert not can_be_read([tmp_path, tmp_path / "of another machine"])


def test_the_engines_own_count_is_of_bytes() -> None:
    assert size_of({"SizeRw": 5}) == DiskUse(bytes=5)
    assert size_of({}) == DiskUse(bytes=0)
    with pytest.raises(EngineError, match="cannot count"):
        size_of({"SizeRw": -1})
