"""A folder that is its owner's alone: tokens, passwords, jobs and objects lie in it."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_OTHERS = 0o077


def make_private(folder: Path, mark: str) -> None:
    """
    Make ``folder``, and close it to other users with all that is in it.

    It skips folders that are private already. It does not touch a folder of another user, or one with files
    but without ``mark``: a setting that names ``/tmp`` must not close it to everybody.

    :param mark: the name of a file that such a folder has.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    is_ours = folder.stat().st_uid == os.getuid()
    if is_ours and ((folder / mark).exists() or not any(folder.iterdir())):
        folder.chmod(0o700)
        _close_below(folder)


def _close_below(folder: Path) -> None:
    for path in folder.iterdir():
        # It may go meanwhile, as programs write here, or belong to a container.
        with suppress(FileNotFoundError, PermissionError):
            mode = stat.S_IMODE(path.lstat().st_mode)
            if path.is_symlink() or not mode & _OTHERS:
                continue
            path.chmod(mode & ~_OTHERS)
            if path.is_dir():
                _close_below(path)
