"""Where a container writes to the disk of a Docker Engine, and how much."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from container_engines.disk_use import DiskUse
from training_api.errors import EngineError


def folders_of(inspected: Mapping[str, Any]) -> list[Path]:
    """
    Return the folders on the engine's machine that grow when the container writes.

    Pure. Empty: unknown. They are its layer, the volumes of its image, and the files that the engine mounts
    into each container, such as ``/etc/hosts``, to which root may write.
    """
    layer = ((inspected.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
    if not layer:
        return []
    volumes = [mount["Source"] for mount in inspected.get("Mounts") or () if mount["Type"] == "volume"]
    files = inspected.get("HostsPath")
    return [Path(layer), *map(Path, volumes), *([Path(files).parent] if files else [])]


def can_be_read(folders: Sequence[Path]) -> bool:
    """Whether there are ``folders``, and this user may look into all of them."""
    return bool(folders) and all(os.access(folder, os.R_OK | os.X_OK) for folder in folders)


def size_of(inspected: Mapping[str, Any]) -> DiskUse:
    """
    Return what the engine itself has counted.

    Pure.

    :raises EngineError: it cannot count it.
    """
    size = int(inspected.get("SizeRw") or 0)
    if size < 0:
        raise EngineError("the engine cannot count what the container has written; its log says why")
    return DiskUse(bytes=size)


def has_no_quota(error: EngineError) -> bool:
    """
    Whether a container was refused because the storage driver cannot limit its root.

    Pure. Source: moby/daemon/graphdriver, "--storage-opt is supported only for overlay over xfs with 'pquota'
    mount option" and "... is not supported for vfs".
    """
    return "--storage-opt" in str(error)
