"""Installing programs: where and why it is refused, and what apt-get is asked elsewhere."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from local_stack.errors import PackagesMissing
from local_stack.processes import packages
from local_stack.processes.packages import PackageInstaller, find_program
from local_stack.processes.progress import Progress


class Apt:
    """
    Stands for the programs that install.

    It keeps their command lines, and what lay in the policy's place.
    """

    def __init__(self, policy: Path) -> None:
        self.policy = policy
        self.commands: list[str] = []
        self.policies: list[str | None] = []
        self.archives = 1
        self.error: Exception | None = None

    def run(self, command: Sequence[str], *, cwd: Path | None, **_: Any) -> None:
        self.commands.append(" ".join(command))
        self.policies.append(self.policy.read_text() if self.policy.exists() else None)
        if command[1] == "download":
            assert cwd is not None
            for number in range(self.archives):
                (cwd / f"p{number}.deb").touch()
        if self.error is not None:
            raise self.error


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apt:
    """A Debian on which we are root."""
    apt = Apt(tmp_path / "policy-rc.d")
    monkeypatch.setattr(packages, "POLICY_RC_D", apt.policy)
    monkeypatch.setattr(packages.subprocess, "run", apt.run)
    monkeypatch.setattr(packages.platform, "freedesktop_os_release", lambda: {"ID": "debian"})
    monkeypatch.setattr(packages, "find_program", lambda name: Path("/usr/bin") / name)
    monkeypatch.setattr(packages.os, "geteuid", lambda: 0)
    monkeypatch.setattr(packages, "one_installation", nullcontext)
    return apt


def make_installer(folder: Path, *, allowed: bool = True) -> PackageInstaller:
    return PackageInstaller(
        log=folder / "logs" / "packages.log", allowed=allowed, progress=Progress(stream=io.StringIO())
    )


def test_on_debian_root_may_install(apt: Apt, tmp_path: Path) -> None:
    assert make_installer(tmp_path).refusal() is None


@pytest.mark.parametrize(
    "release", [{"ID": "ubuntu", "ID_LIKE": "debian"}, {"ID": "x", "ID_LIKE": "a debian"}]
)
def test_what_is_made_from_debian_counts_as_one(
    apt: Apt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: dict[str, str]
) -> None:
    monkeypatch.setattr(packages.platform, "freedesktop_os_release", lambda: release)

    assert make_installer(tmp_path).refusal() is None


def test_each_refusal_says_why(apt: Apt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "LOCAL_STACK_INSTALL_PACKAGES" in (make_installer(tmp_path, allowed=False).refusal() or "")
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    assert make_installer(tmp_path).refusal() == "this is not run as root"
    monkeypatch.setattr(packages.platform, "freedesktop_os_release", lambda: {"ID": "fedora"})
    assert make_installer(tmp_path).refusal() == "this is neither Debian nor Ubuntu"


def test_what_is_refused_is_named_with_the_way_out_and_nothing_runs(apt: Apt, tmp_path: Path) -> None:
    with pytest.raises(
        PackagesMissing, match=r"^docker.io iptables must be installed, but .*; install it, or"
    ):
        make_installer(tmp_path, allowed=False).install(["docker.io", "iptables"], start_services=True)

    assert apt.commands == []


@pytest.mark.parametrize("start_services", [True, False])
def test_services_of_packages_start_only_where_that_is_wanted(
    apt: Apt, tmp_path: Path, start_services: bool
) -> None:
    make_installer(tmp_path).install(["docker.io"], start_services=start_services)

    update, install = apt.commands
    assert update == "apt-get update"
    assert install.startswith("apt-get install ")
    assert install.endswith(" --yes --no-install-recommends docker.io")
    assert apt.policies == [None, None if start_services else "#!/bin/sh\nexit 101\n"]
    assert not apt.policy.exists()


def test_a_policy_of_the_machine_is_left_as_it_is(apt: Apt, tmp_path: Path) -> None:
    apt.policy.write_text("its own")

    make_installer(tmp_path).install(["docker.io"], start_services=False)

    assert apt.policies == ["its own", "its own"]
    assert apt.policy.read_text() == "its own"


@pytest.mark.parametrize("error", [subprocess.CalledProcessError(100, "apt-get"), OSError("no such program")])
def test_a_failure_names_the_command_and_its_log_and_leaves_no_policy(
    apt: Apt, tmp_path: Path, error: Exception
) -> None:
    apt.error = error

    with pytest.raises(PackagesMissing, match=r"'apt-get update' failed; its output is in .*packages\.log"):
        make_installer(tmp_path).install(["docker.io"], start_services=False)

    assert not apt.policy.exists()


def test_a_package_is_unpacked_and_not_installed(apt: Apt, tmp_path: Path) -> None:
    make_installer(tmp_path).unpack("docker-registry", tmp_path / "tools" / "docker-registry")

    assert [command.split()[:2] for command in apt.commands] == [
        ["apt-get", "update"],
        ["apt-get", "download"],
        ["dpkg-deb", "--extract"],
    ]
    assert apt.commands[-1].endswith(f"p0.deb {tmp_path / 'tools' / 'docker-registry'}")
    assert (tmp_path / "tools" / "docker-registry").is_dir()


def test_a_package_of_another_debian_comes_from_its_signed_lists_alone(apt: Apt, tmp_path: Path) -> None:
    make_installer(tmp_path).unpack("docker-compose", tmp_path / "tools", suite="trixie")

    for command in apt.commands[:2]:
        assert "Dir::Etc::SourceParts=/dev/null" in command
        assert "Dir::Etc::SourceList=" in command
        assert "Dir::State::Lists=" in command


def test_programs_of_the_administrator_are_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "registryd"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_program("registryd") == program
    assert find_program("no-such-program-anywhere") is None
