"""Finds a ``docker`` command line with BuildKit, whose sessions the engine's API lacks."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from training_api.errors import BuildKitMissing

_SECONDS = 30
_VERSION = re.compile(r"Docker version (\d+)\.(\d+)")
#: From 18.09 on a command line has BuildKit's client built in; from 23.0 on it needs the plugin buildx.
_FIRST_VERSION, _FIRST_WITHOUT = (18, 9), (23, 0)
_BUILDX_VERSION = re.compile(r"buildx v?(\d+)\.(\d+)")
#: The first buildx that reaches a BuildKit at an address. Source: its release notes, "remote driver".
_FIRST_REMOTE = (0, 8)
INSTALL_BUILDX = "install docker-buildx-plugin or docker-buildx"


def find_buildkit_cli(search_path: str | None = None) -> str:
    """
    Return the first ``docker`` that can drive an engine's BuildKit.

    :param search_path: folders, as in ``PATH``, which is the default.
    :raises BuildKitMissing: none can; the message says what was found.
    """
    way_out = f"{INSTALL_BUILDX}, or Debian 12's docker.io (20.10)"
    return _first("BuildKit", _why_not, way_out, search_path)


def find_buildx_cli(search_path: str | None = None) -> str:
    """
    Return the first ``docker`` whose plugin buildx can drive a BuildKit on another machine.

    :param search_path: folders, as in ``PATH``, which is the default.
    :raises BuildKitMissing: none can; the message says what was found.
    """
    return _first("a remote BuildKit", _why_not_remote, INSTALL_BUILDX, search_path)


def _first(what: str, why_not: Callable[[Path], str | None], way_out: str, search_path: str | None) -> str:
    """Return the first ``docker`` of which ``why_not`` says nothing."""
    refused = []
    for program in _programs(search_path):
        reason = why_not(program)
        if reason is None:
            return str(program)
        refused.append(f"{program} {reason}")
    found = "; ".join(refused) or "there is no program docker on PATH"
    raise BuildKitMissing(
        f"the build needs {what}, and no docker command line here can drive it: {found}; {way_out}"
    )


def _programs(search_path: str | None) -> Iterator[Path]:
    seen: set[Path] = set()
    for folder in (search_path or os.environ.get("PATH", os.defpath)).split(os.pathsep):
        program = Path(folder or ".") / "docker"
        if os.access(program, os.X_OK) and program.is_file() and program.resolve() not in seen:
            seen.add(program.resolve())
            yield program


def _why_not(program: Path) -> str | None:
    """Return why ``program`` has no BuildKit; ``None``: it has."""
    version = _VERSION.search(_output(program, "--version"))
    if version is not None and _FIRST_VERSION <= (int(version[1]), int(version[2])) < _FIRST_WITHOUT:
        return None
    if "buildx" in _output(program, "buildx", "version"):
        return None
    return f"({version[0] if version else 'of an unknown version'}) lacks the plugin buildx"


def _why_not_remote(program: Path) -> str | None:
    """Return why ``program`` cannot drive a remote BuildKit; ``None``: it can."""
    found = _BUILDX_VERSION.search(_output(program, "buildx", "version"))
    if found is None:
        return "lacks the plugin buildx"
    if (int(found[1]), int(found[2])) < _FIRST_REMOTE:
        return f"has {found[0]}, which is older than {'.'.join(map(str, _FIRST_REMOTE))}"
    return None


def _output(program: Path, *arguments: str) -> str:
    """Return what ``program`` prints; empty if it fails."""
    try:
        run = subprocess.run(
            [str(program), *arguments], check=True, capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout
