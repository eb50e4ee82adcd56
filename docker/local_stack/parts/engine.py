"""The Docker Engine: the one that answers, or one of our own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import docker
import docker.errors
import psutil
import requests

from local_stack.errors import EngineMissing, LocalStackError
from local_stack.parts.engine_networks import finish_removals
from local_stack.parts.part import StackPart
from local_stack.processes.packages import find_program, is_systemd_running
from local_stack.processes.shared_locks import one_engine_start
from local_stack.processes.supervisor_config import Program
from local_stack.settings import Part

PING_TIMEOUT_SECONDS = 5
SYSTEMD_START_SECONDS = 10.0
POLL_SECONDS = 0.2
_DATA_ROOT = Path("/var/lib/docker")  # dockerd's default


def connect(url: str, *, timeout_seconds: int = 60) -> docker.DockerClient:
    """
    Return a client of the engine at ``url``, which has answered a ping.

    :raises EngineMissing: nothing answers there.
    """
    try:
        client = docker.DockerClient(base_url=url, timeout=timeout_seconds)
        client.ping()
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise EngineMissing(f"no Docker Engine answers at {url}: {error}") from error
    return client


def answers(url: str) -> bool:
    """Tell whether an engine answers at ``url``."""
    try:
        connect(url, timeout_seconds=PING_TIMEOUT_SECONDS).close()
    except EngineMissing:
        return False
    return True


class Engine(StackPart):
    """
    The engine that the stack uses.

    The one at DOCKER_HOST or the default socket; else, as root on Debian or Ubuntu, a supervised dockerd.
    """

    name = Part.ENGINE

    _must_start = False

    def address(self) -> str:
        """Return the engine's URL."""
        return self.settings.engine_url

    def is_healthy(self) -> bool:
        """Tell whether the engine answers a ping."""
        return answers(self.settings.engine_url)

    def is_ours(self) -> bool:
        """Tell whether this stack runs the engine."""
        info = self.processes.info(self.name.value)
        return info is not None and info.is_alive

    def describe(self) -> str:
        """Return version and owner of the engine that answers, for people."""
        client = connect(self.settings.engine_url)
        try:
            version = client.version()
        finally:
            client.close()
        owner = "started by this stack" if self.is_ours() else "not started by this stack"
        return (
            f"Docker Engine {version['Version']} (API {version['ApiVersion']}) at {self.address()}, {owner}"
        )

    def start_lock(self) -> AbstractContextManager[None]:
        """Return the lock of the machine's engine: a second stack uses the engine of the first."""
        return one_engine_start()

    def prepare(self) -> None:
        """
        Decide whose engine is used; install one if there is none.

        :raises EngineMissing: none answers, and none can be started here.
        """
        self._must_start = False
        if self.is_healthy():
            return
        if self.is_ours():
            self._finish_removals()  # it may end again and again
            return
        if self.settings.engine_url != self.settings.default_engine_url:
            raise EngineMissing(
                f"no Docker Engine answers at DOCKER_HOST={self.settings.engine_url}; start it, or unset "
                "DOCKER_HOST"
                f" to use {self.settings.default_engine_url}"
            )
        if find_program("dockerd") is None or find_program("iptables") is None:
            self._install()
            if is_systemd_running() and self._answers_within(SYSTEMD_START_SECONDS):
                return
        if self.packages.refusal() is not None and not _is_root():
            raise EngineMissing(
                f"no Docker Engine answers at {self.address()}, and only root can start one;"
                " start Docker (for example: sudo systemctl start docker), or set DOCKER_HOST"
            )
        _remove_stale_pid_file(self.settings.engine_pid_file, "dockerd")
        _remove_stale_pid_file(self.settings.engine_exec_root / "containerd" / "containerd.pid", "containerd")
        self._finish_removals()
        self._must_start = True

    def programs(self) -> Sequence[Program]:
        """Return dockerd, if the engine is ours."""
        if not (self._must_start or self.is_ours()):
            return ()
        dockerd = find_program("dockerd")
        if dockerd is None:
            raise EngineMissing(
                "dockerd is not installed, although docker.io was installed; install Docker by hand"
            )
        settings = self.settings
        command = [
            str(dockerd),
            "--host",
            settings.default_engine_url,
            "--exec-root",
            str(settings.engine_exec_root),
            "--pidfile",
            str(settings.engine_pid_file),
        ]
        if settings.engine_data_root is not None:
            command += ["--data-root", str(settings.engine_data_root)]
        # Stopping the engine stops its containers first; each has ten seconds.
        return [
            Program(
                name=self.name.value,
                command=(*command, *settings.engine_arguments),
                environment={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                stop_wait_seconds=30,
                umask=0o022,  # the files of images have the modes that their builds give them
            )
        ]

    def _finish_removals(self) -> None:
        for network in finish_removals(self.settings.engine_data_root or _DATA_ROOT):
            self.progress.say(
                f"engine: it was killed while it removed the network {network}; that is finished"
            )

    def _install(self) -> None:
        reason = self.packages.refusal()
        if reason is not None:
            raise EngineMissing(
                f"no Docker Engine answers at {self.address()}, and it cannot be installed here: {reason};"
                " install and start Docker (https://docs.docker.com/engine/install/), or set DOCKER_HOST"
            )
        # Where systemd runs services, Docker is one of them; elsewhere dockerd is supervised by this stack.
        self.packages.install(["docker.io", "iptables"], start_services=is_systemd_running())

    def _answers_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.is_healthy():
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def _is_root() -> bool:
    return psutil.Process().uids().effective == 0


def _remove_stale_pid_file(file: Path, program: str) -> None:
    """
    Remove a pid file whose process is gone, or is another program by now.

    dockerd refuses to start while *any* process has the pid, and takes whatever has containerd's pid for
    containerd; after a restart of the machine that is often another program.

    :raises LocalStackError: the program does run.
    """
    try:
        pid = int(file.read_text(encoding="ascii").strip())
    except (FileNotFoundError, ValueError):
        return
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.name() == program:
            if program == "dockerd":
                raise LocalStackError(
                    f"dockerd runs (process {pid}, {file}) but does not answer on the socket that was asked;"
                    " set DOCKER_HOST to the socket on which it listens"
                )
            return
    file.unlink(missing_ok=True)
