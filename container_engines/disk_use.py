"""What lies below folders that others write to: bytes and files, counted up to a bound."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from training_api.errors import EngineError

_BLOCK_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """
    Bytes on a disk, and the files and folders that have them.

    :param files: ``None``: not counted.
    """

    bytes: int
    files: int | None = None

    def exceeds(self, most: DiskUse) -> bool:
        """Whether there are more bytes or files than in ``most``, in which 0 is no bound."""
        return 0 < most.bytes < self.bytes or 0 < (most.files or 0) < (self.files or 0)


class FolderHidden(EngineError):
    """Part of a folder cannot be counted, as this user may not read it."""


def use_of_folders(folders: Sequence[Path], most: DiskUse) -> DiskUse:
    """
    Return what lies below ``folders``; counting ends as soon as ``most`` is exceeded.

    By ``find``, which goes by descriptors: a trainer may nest folders deeper than a path can be long. What
    goes while it is counted is left out.

    :raises FolderHidden: a folder below cannot be read.
    """
    # Blocks, not sizes: a file with holes takes no more than it has.
    command = ["find", *map(os.fspath, folders), "-xdev", "-ignore_readdir_race", "-printf", "%b\\n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as counting:
        use = DiskUse(bytes=0, files=0)
        blocks = files = 0
        for line in counting.stdout or ():
            blocks, files = blocks + int(line), files + 1
            use = DiskUse(bytes=blocks * _BLOCK_BYTES, files=files)
            if use.exceeds(most):
                counting.kill()
                return use
    if counting.returncode and all(folder.exists() for folder in folders):
        raise FolderHidden(f"a folder below {folders[0]} cannot be read")
    return use
