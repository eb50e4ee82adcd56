"""
A newer Docker than the machine's, for tests of builds on another machine's BuildKit.

Debian has no ``buildkitd``, and Debian 12 no plugin buildx. The engine of the next Debian has all of BuildKit
in it.
"""

from __future__ import annotations

from pathlib import Path

from local_stack.processes.packages import PackageInstaller
from local_stack.settings import StackSettings

#: Of Debian; its programs need nothing that Debian 12 lacks.
SUITE = "trixie"
#: Package -> the program that is used of it.
PROGRAMS = {
    "docker-buildx": "usr/libexec/docker/cli-plugins/docker-buildx",
    "docker-cli": "usr/bin/docker",
    "docker.io": "usr/sbin/dockerd",
}


def find_newer_docker(settings: StackSettings) -> Path | None:
    """Return the folder into which the packages were unpacked; ``None``: they were not."""
    folder = settings.tools_dir / f"docker-{SUITE}"
    return folder if all((folder / program).is_file() for program in PROGRAMS.values()) else None


def ensure_newer_docker(settings: StackSettings, packages: PackageInstaller) -> Path:
    """
    Return the folder of the packages, unpacked if need be; none of them is installed.

    :raises PackagesMissing: they cannot be had here.
    """
    folder = settings.tools_dir / f"docker-{SUITE}"
    for package, program in PROGRAMS.items():
        if not (folder / program).is_file():
            packages.unpack(package, folder, suite=SUITE)
    return folder
