"""What the tests need from a machine: installed where possible, and named where missing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local_stack import test_bed
from local_stack.errors import PackagesMissing
from local_stack.settings import Part
from local_stack.test_bed import ELSEWHERE, PROGRAMS, bring_up_test_bed


class Machine:
    """A machine with some programs, where installing may be allowed."""

    def __init__(self) -> None:
        self.programs: set[str] = set()
        self.reason: str | None = None
        self.installed: list[list[str]] = []
        self.up: list[Collection[Part]] = []

    def find(self, program: str) -> Path | None:
        return Path("/usr/bin") / program if program in self.programs else None

    def install(self, packages: list[str], *, start_services: bool) -> None:
        assert not start_services
        self.installed.append(packages)
        self.programs |= {program for program, package in PROGRAMS.items() if package.split()[0] in packages}

    @property
    def stack(self) -> Any:
        return SimpleNamespace(
            packages=SimpleNamespace(refusal=lambda: self.reason, install=self.install),
            up=self.up.append,
            engine=SimpleNamespace(describe=lambda: "Docker Engine 27"),
            settings=SimpleNamespace(registry_image="registry:2", base_image="python:3.11"),
        )


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()

    def no_postgresql(packages: object) -> Path:
        raise PackagesMissing("postgresql must be installed")

    def no_docker(settings: object, packages: object) -> Path:
        raise PackagesMissing("docker-buildx must be installed")

    monkeypatch.setattr(test_bed, "find_program", machine.find)
    monkeypatch.setattr(test_bed, "ensure_registry_program", lambda settings, packages: None)
    monkeypatch.setattr(test_bed, "ensure_server_programs", no_postgresql)
    monkeypatch.setattr(test_bed, "ensure_newer_docker", no_docker)
    return machine


@pytest.fixture
def table(machine: Machine, capsys: pytest.CaptureFixture[str]) -> Callable[[], dict[str, str]]:
    """Return a function that brings the bed up and returns what was printed."""

    def table() -> dict[str, str]:
        bring_up_test_bed(machine.stack)
        lines = capsys.readouterr().out.splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    return table


def test_what_is_missing_is_installed_and_nothing_else(
    machine: Machine, table: Callable[[], dict[str, str]]
) -> None:
    machine.programs = {"ip", "chromium", "nft"}

    shown = table()

    assert machine.installed == [
        ["openssh-client", "prometheus", "redis-server", *PROGRAMS["podman"].split(), "curl"]
    ]
    assert shown["ssh-keygen"] == "/usr/bin/ssh-keygen"
    assert machine.up == [[Part.ENGINE, Part.BASE_IMAGE]]


def test_where_nothing_may_be_installed_each_missing_program_has_its_source(
    machine: Machine, table: Callable[[], dict[str, str]]
) -> None:
    machine.reason = "this is not run as root"

    shown = table()

    assert machine.installed == []
    assert shown["promtool"] == "missing, its tests are not run: install the package prometheus"
    assert ELSEWHERE["gcloud"] in shown["gcloud"]
    assert shown["postgresql"] == "missing, its tests are not run: postgresql must be installed"
    assert shown["newer docker"] == "missing, its tests are not run: docker-buildx must be installed"
    assert shown["registry"] == "registry:2"


def test_a_machine_that_has_everything_is_left_alone(
    machine: Machine, table: Callable[[], dict[str, str]]
) -> None:
    machine.programs = {*PROGRAMS, *ELSEWHERE}

    shown = table()

    assert [name for name, value in shown.items() if "missing" in value] == ["postgresql", "newer docker"]
    assert machine.installed == []
