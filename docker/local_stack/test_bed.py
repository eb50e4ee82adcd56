"""What the tests need from this machine: an engine, a base image, the registry's program, networks for nodes, and a browser."""

from __future__ import annotations

import platform
from importlib.metadata import version

from local_stack.base_image import BaseImage
from local_stack.packages import find_program
from local_stack.registry import ensure_registry_program
from local_stack.settings import Part
from local_stack.stack import LocalStack

#: Programs that tests start -> the packages that have them.
_PROGRAMS = {
    "ip": "iproute2",  # the nodes of the swarm that tests make have networks of their own
    "chromium": "chromium",  # a real browser looks at the dashboard
    "promtool": "prometheus",  # asks what the dashboard for Grafana asks
}


def bring_up_test_bed(stack: LocalStack) -> None:
    """
    Bring up what the tests need, and print what they run against.

    The tests start a registry, an object store and services of their own, on free ports.

    :raises LocalStackError: something cannot be had on this machine.
    """
    missing = [package for program, package in _PROGRAMS.items() if find_program(program) is None]
    if missing and stack.packages.refusal() is None:
        stack.packages.install(missing, start_services=False)
    stack.up([Part.ENGINE, Part.BASE_IMAGE])
    program = ensure_registry_program(stack.settings, stack.packages)
    rows = {
        "engine": stack.engine.describe(),
        "base image": BaseImage.name_of(stack.settings),
        "registry": str(program or stack.settings.registry_image),
        "browser": str(find_program("chromium") or "none: install chromium"),
        "python": platform.python_version(),
        "airflow": version("apache-airflow"),
    }
    for name, value in rows.items():
        print(f"{name + ':':12}{value}")
