"""Finding a command line of docker's that can build with BuildKit."""

from __future__ import annotations

from pathlib import Path

import pytest

from container_training.work.images.builders.docker_cli import find_buildkit_cli, find_buildx_cli
from training_api.errors import BuildKitMissing


def make_docker(
    folder: Path, version: str, *, has_buildx: bool = False, buildx_version: str = "v0.12.1"
) -> Path:
    folder.mkdir()
    program = folder / "docker"
    buildx = f"echo github.com/docker/buildx {buildx_version}" if has_buildx else "exit 1"
    program.write_text(
        f'#!/bin/sh\ncase "$1" in --version) echo "Docker version {version}, build abc";; buildx) {buildx};; esac\n'
    )
    program.chmod(0o755)
    return program


def test_a_command_line_without_the_plugin_is_passed_over(tmp_path: Path) -> None:
    make_docker(tmp_path / "new", "28.2.2")
    old = make_docker(tmp_path / "old", "20.10.24+dfsg1")
    plugin = make_docker(tmp_path / "plugin", "28.2.2", has_buildx=True)

    assert find_buildkit_cli(f"{tmp_path / 'new'}:{tmp_path / 'old'}") == str(old)
    assert find_buildkit_cli(f"{tmp_path / 'new'}:{tmp_path / 'plugin'}:{tmp_path / 'old'}") == str(plugin)


def test_a_machine_without_one_is_told_what_was_found(tmp_path: Path) -> None:
    new = make_docker(tmp_path / "new", "28.2.2")

    with pytest.raises(BuildKitMissing) as caught:
        find_buildkit_cli(f"{tmp_path / 'new'}:{tmp_path / 'nowhere'}")

    assert f"{new} (Docker version 28.2) lacks the plugin buildx; install docker-buildx-plugin" in str(
        caught.value
    )


def test_a_remote_builder_needs_the_plugin_and_not_too_old_a_one(tmp_path: Path) -> None:
    without = make_docker(tmp_path / "without", "20.10.24+dfsg1")
    old = make_docker(tmp_path / "old", "20.10.24", has_buildx=True, buildx_version="v0.7.1")
    debians = make_docker(tmp_path / "debian", "26.1.5", has_buildx=True, buildx_version="0.13.1+ds1")

    assert find_buildx_cli(f"{without.parent}:{old.parent}:{debians.parent}") == str(debians)
    with pytest.raises(BuildKitMissing) as caught:
        find_buildx_cli(f"{without.parent}:{old.parent}")
    assert (
        f"{without} lacks the plugin buildx; {old} has buildx v0.7, which is older than 0.8; install"
        in str(caught.value)
    )
