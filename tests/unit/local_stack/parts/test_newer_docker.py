"""A newer Docker for tests: unpacked once, and only whole."""

from __future__ import annotations

from pathlib import Path

from local_stack.parts.newer_docker import PROGRAMS, ensure_newer_docker, find_newer_docker
from local_stack.settings import StackSettings


class Packages:
    """Unpacks an empty program of each package."""

    def __init__(self) -> None:
        self.unpacked: list[tuple[str, str]] = []

    def unpack(self, package: str, into: Path, *, suite: str) -> None:
        self.unpacked.append((package, suite))
        program = into / PROGRAMS[package]
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()


def test_each_package_is_unpacked_once(tmp_path: Path) -> None:
    settings = StackSettings(tools_dir=tmp_path)
    packages = Packages()

    assert find_newer_docker(settings) is None
    folder = ensure_newer_docker(settings, packages)  # type: ignore[arg-type]
    ensure_newer_docker(settings, packages)  # type: ignore[arg-type]

    assert packages.unpacked == [(package, "trixie") for package in PROGRAMS]
    assert find_newer_docker(settings) == folder
    (folder / PROGRAMS["docker-cli"]).unlink()
    assert find_newer_docker(settings) is None
