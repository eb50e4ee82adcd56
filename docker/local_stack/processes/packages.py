"""Programs of the operating system, installed on Debian and Ubuntu where that is allowed."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local_stack.errors import PackagesMissing
from local_stack.processes.progress import Progress
from local_stack.processes.shared_locks import one_installation

POLICY_RC_D = Path("/usr/sbin/policy-rc.d")
#: By which apt and debootstrap check the lists of packages.
DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
DEBIAN_MIRROR = "http://deb.debian.org/debian"
APT_TIMEOUT_SECONDS = 600
#: Seconds to wait for another program that installs packages, as a machine's own upgrades do after its start.
_WAIT_FOR_OTHERS = ("-o", "DPkg::Lock::Timeout=300")


def find_program(name: str) -> Path | None:
    """
    Return the path of a program.

    It also searches the administrator's folders: ``sbin`` is often not on PATH.
    """
    found = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin:/usr/local/sbin")
    return Path(found) if found else None


def is_systemd_running() -> bool:
    """Tell whether systemd manages the services of this machine (sd_booted(3))."""
    return Path("/run/systemd/system").is_dir()


def _is_debian_like() -> bool:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return False
    return "debian" in {release.get("ID", ""), *release.get("ID_LIKE", "").split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInstaller:
    """
    apt-get, if this is Debian or Ubuntu, we are root, and the settings allow it.

    :param log: file that gets the output of apt-get.
    :param allowed: whether anything may be installed at all.
    """

    log: Path
    allowed: bool
    progress: Progress

    def refusal(self) -> str | None:
        """Return why nothing can be installed here, or None if it can."""
        if not self.allowed:
            return "installing packages is switched off (LOCAL_STACK_INSTALL_PACKAGES)"
        if not _is_debian_like() or find_program("apt-get") is None:
            return "this is neither Debian nor Ubuntu"
        if os.geteuid() != 0:
            return "this is not run as root"
        return None

    def install(self, packages: Sequence[str], *, start_services: bool) -> None:
        """
        Install packages and what they need; those that are installed already cost little.

        :param start_services: let the packages start their services, as they do by default.
        :raises PackagesMissing: not possible here, or apt-get failed.
        """
        self._require(packages)
        with (
            one_installation(),
            self.progress.step(f"installing {' '.join(packages)} with apt-get (log: {self.log})"),
        ):
            self._run(["apt-get", "update"])
            command = ["apt-get", "install", *_WAIT_FOR_OTHERS, "--yes", "--no-install-recommends", *packages]
            if start_services:
                self._run(command)
            else:
                with _services_not_started():
                    self._run(command)

    def unpack(self, package: str, into: Path, *, suite: str = "") -> None:
        """
        Download a package and unpack its files into a folder, without installing it.

        For programs whose package would also install a service that listens on all interfaces, or come from
        a newer Debian: it must then need nothing that this one lacks.

        :param suite: of Debian; default: the machine's own.
        :raises PackagesMissing: not possible here, or apt-get failed.
        """
        self._require([package])
        with (
            one_installation(),
            self.progress.step(f"unpacking the package {package} into {into} (log: {self.log})"),
            tempfile.TemporaryDirectory(prefix="local-stack-") as folder,
        ):
            options = _only_from(suite, Path(folder)) if suite else []
            self._run(["apt-get", "update", *options])
            # The download runs as the user _apt, who may not enter a private folder: root downloads instead.
            self._run(
                ["apt-get", "download", "-o", "APT::Sandbox::User=root", *options, package], cwd=Path(folder)
            )
            into.mkdir(parents=True, exist_ok=True)
            for archive in Path(folder).glob("*.deb"):
                self._run(["dpkg-deb", "--extract", str(archive), str(into)])

    def _require(self, packages: Sequence[str]) -> None:
        reason = self.refusal()
        if reason is not None:
            raise PackagesMissing(
                f"{' '.join(packages)} must be installed, but {reason}; install it, or run this again as root"
            )

    def _run(self, command: Sequence[str], cwd: Path | None = None) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        with self.log.open("ab") as output:
            output.write(f"\n$ {' '.join(command)}\n".encode())
            output.flush()
            try:
                subprocess.run(
                    command,
                    check=True,
                    cwd=cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=APT_TIMEOUT_SECONDS,
                )
            except (subprocess.SubprocessError, OSError) as error:
                raise PackagesMissing(f"{' '.join(command)!r} failed; its output is in {self.log}") from error


def _only_from(suite: str, folder: Path) -> list[str]:
    """Return options for apt-get: the packages of another Debian, its lists in ``folder``."""
    source = folder / "sources.list"
    source.write_text(f"deb [signed-by={DEBIAN_KEYRING}] {DEBIAN_MIRROR} {suite} main\n", encoding="ascii")
    (folder / "lists" / "partial").mkdir(parents=True)
    settings = {
        "Dir::Etc::SourceList": source,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]


@contextmanager
def _services_not_started() -> Iterator[None]:
    """
    Keep packages from starting their services.

    With the policy file of invoke-rc.d(8) and deb-systemd-invoke(1).
    """
    if POLICY_RC_D.exists():  # the machine has its own policy, and it is not ours to change
        yield
        return
    POLICY_RC_D.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    POLICY_RC_D.chmod(0o755)
    try:
        yield
    finally:
        POLICY_RC_D.unlink(missing_ok=True)
