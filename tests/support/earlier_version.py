"""The code of an earlier version, as far as this checkout's history has it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

#: A tree from here on can be built by today's files.
_SINCE = "docker/compose.yaml"
_NOT_SOURCE = shutil.ignore_patterns(".git", ".local", ".venv", "__pycache__", "*.egg-info", "dist", "logs")


def unpack_earlier_version(repository: Path, commit: str, folder: Path) -> str:
    """
    Write the tree of ``commit`` to the new ``folder``; return which it is, in words.

    A shallow clone may lack it: then it is the tree of the oldest commit that is there and has the stack of
    Compose, which may be today's. Without a history it is today's files.
    """
    found = commit if has_commit(repository, commit) else _oldest(repository)
    if not found:
        shutil.copytree(repository, folder, ignore=_NOT_SOURCE)
        return "these files: there is no history"
    folder.mkdir()
    archive = _git(repository, "archive", found).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return f"commit {found}" + ("" if found == commit else f": {commit} is not in this clone")


def has_commit(repository: Path, commit: str) -> bool:
    """Whether the history of ``repository`` has ``commit``: a shallow clone may lack it."""
    return _git(repository, "cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


def _oldest(repository: Path) -> str:
    # To git, the first commit of a shallow clone has added all files.
    found = _git(repository, "log", "--diff-filter=A", "--format=%h", "--", _SINCE).stdout.decode()
    return found.split()[-1] if found.split() else ""


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, returncode=127, stdout=b"", stderr=b"")
