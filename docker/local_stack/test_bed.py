"""
What the tests need from this machine: an engine, a base image, and programs.

Programs are installed if that is possible.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from local_stack.errors import PackagesMissing
from local_stack.parts.base_image import BaseImage
from local_stack.parts.database import ensure_server_programs
from local_stack.parts.newer_docker import ensure_newer_docker
from local_stack.parts.registry import ensure_registry_program
from local_stack.processes.packages import find_program
from local_stack.settings import Part
from local_stack.stack import LocalStack

#: Programs that tests start -> the Debian packages that they need, with blanks between.
PROGRAMS: Mapping[str, str] = {
    "nft": "nftables",  # closes the networks of jobs
    "ip": "iproute2",  # the nodes of the swarm that tests make have networks of their own
    "ssh-keygen": "openssh-client",  # keys for builds that reach an SSH agent
    "chromium": "chromium",  # a real browser looks at the dashboard
    "promtool": "prometheus",  # asks what the dashboard for Grafana asks
    "redis-server": "redis-server",  # the broker of an Airflow with Celery
    # An engine of another kind, for the contract of engines; the last two are its networks and their names.
    "podman": "podman runc netavark aardvark-dns",
    "curl": "curl",  # of the commands of docs/install.md
}
#: Programs that Debian does not have -> where they come from.
ELSEWHERE: Mapping[str, str] = {"gcloud": "https://cloud.google.com/sdk/docs/install"}


def bring_up_test_bed(stack: LocalStack) -> None:
    """
    Bring up what the tests need, and print what they run against, and what is missing.

    The tests start a registry, an object store and services of their own, on free ports. Tests of programs
    that are missing are not run, and counted.

    :raises LocalStackError: there is no engine or base image.
    """
    missing = [
        package
        for program, packages in PROGRAMS.items()
        if find_program(program) is None
        for package in packages.split()
    ]
    if missing and stack.packages.refusal() is None:
        stack.packages.install(missing, start_services=False)
    stack.up([Part.ENGINE, Part.BASE_IMAGE])
    registry = ensure_registry_program(stack.settings, stack.packages)
    rows = {
        "engine": stack.engine.describe(),
        "base image": BaseImage.name_of(stack.settings),
        "registry": str(registry or stack.settings.registry_image),
        "postgresql": _path_or_reason(lambda: ensure_server_programs(stack.packages)),
        "newer docker": _path_or_reason(lambda: ensure_newer_docker(stack.settings, stack.packages)),
        **{program: _found_or_source(program) for program in (*PROGRAMS, *ELSEWHERE)},
        "python": platform.python_version(),
        "airflow": version("apache-airflow"),
    }
    for name, value in rows.items():
        print(f"{name + ':':14}{value}")


def _found_or_source(program: str) -> str:
    source = ELSEWHERE.get(program) or f"the package {PROGRAMS.get(program)}"
    return str(find_program(program) or f"missing, its tests are not run: install {source}")


def _path_or_reason(ensure: Callable[[], Path]) -> str:
    try:
        return str(ensure())
    except PackagesMissing as error:
        return f"missing, its tests are not run: {error}"
