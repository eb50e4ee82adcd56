"""
Podman's service on a socket of the tests' own, with storage and networks of its own.

It is neither the machine's Podman nor its Docker Engine, and is removed afterwards.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import docker.errors
import pytest

from local_stack.stack import LocalStack
from tests.support.bed.registry import REPOSITORY, push, registry_program, run_registry
from tests.support.ports import reserve_port
from tests.support.run_id import RUN_VARIABLE, current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_api.job.image_ref import ImageRef, parse_image_ref

#: What the tests cannot take from the machine's own configuration.
_CONTAINERS_CONF = """\
[containers]
base_hosts_file = "none"
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
# Podman's own, catatonit, ends with 1 instead of 127 without the program that it is to start.
init_path = "/usr/bin/docker-init"
runtime = "{runtime}"
[network]
network_backend = "netavark"
"""
_PROCESSES = 4096
#: Registries of tests speak HTTP on loopback; nobody asks one for an image without a registry's name.
_REGISTRIES_CONF = """\
unqualified-search-registries = []
[[registry]]
location = "127.0.0.1"
insecure = true
"""


class Podman:
    """
    ``podman system service`` in a folder of its own.

    :param folder: short, because the path of the socket begins with it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Podman takes at most 50 characters.
        self._run_root = Path(tempfile.mkdtemp(prefix="ct-podman-", dir="/run"))
        # By this link the next run finds it, should this one be killed.
        self._link = current_run().folder / f"tmp-podman-{current_run().member}-{self._run_root.name}"
        self._link.symlink_to(self._run_root)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def docker_host(self) -> str:
        """URL of the service."""
        return f"unix://{self.folder / 'podman.sock'}"

    def start(self) -> None:
        """Start the service and wait until it answers."""
        (self.folder / "podman.sock").unlink(missing_ok=True)
        (self.folder / "tmp").mkdir(exist_ok=True)
        (self.folder / "containers.conf").write_text(
            _CONTAINERS_CONF.format(
                # Podman asks for a million of each, which only root with all of root's rights gets.
                files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
                processes=_PROCESSES,
                runtime=_runtime(),
            )
        )
        (self.folder / "registries.conf").write_text(_REGISTRIES_CONF)
        with (self.folder / "log").open("ab") as log:
            process = self._process = subprocess.Popen(
                self._command("system", "service", "--time=0", self.docker_host),
                env=self._environment,
                cwd=self.folder,  # where conmon leaves an empty file ``oom``
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(
            lambda: process.poll() is not None or self._answers(), f"Podman answers ({self.folder / 'log'})"
        )
        assert process.poll() is None, (self.folder / "log").read_text()[-2000:]

    def kill(self) -> None:
        """End the service with SIGKILL; containers go on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(scaled(60))

    def remove(self) -> None:
        """End the service, and remove its containers, networks and folder."""
        self.kill()
        subprocess.run(
            # Podman 4.3 logs the removal of images beside its work: a line may come while it removes the
            # log's folder, which then is not empty, and the command fails.
            self._command("--events-backend=none", "system", "reset", "--force"),
            env=self._environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        shutil.rmtree(self.folder)
        shutil.rmtree(self._run_root, ignore_errors=True)
        self._link.unlink()

    def client(self) -> docker.APIClient:
        """Return a new client; the caller closes it."""
        return docker.APIClient(self.docker_host, timeout=scaled(60))

    def _command(self, *arguments: str) -> list[str]:
        return [
            "podman",
            f"--root={self.folder / 'root'}",
            f"--runroot={self._run_root}",
            f"--tmpdir={self.folder / 'tmp'}",
            f"--network-config-dir={self.folder / 'networks'}",
            "--storage-driver=overlay",
            *arguments,
        ]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            RUN_VARIABLE: current_run().id,
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),  # Podman 4.3 leaves what it was sent in it
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(self.folder / "registries.conf"),
        }

    def _answers(self) -> bool:
        with suppress(OSError, docker.errors.DockerException):
            client = self.client()
            try:
                return bool(client.ping())
            finally:
                client.close()
        return False


def _runtime() -> str:
    """
    Return a runtime that works with this machine's control groups.

    crun refuses both versions at once.
    """
    has_both = Path("/sys/fs/cgroup/unified").is_dir()
    return "runc" if has_both else "crun"


def has_one_tree_of_groups() -> bool:
    """Whether this machine has control groups of version 2 only."""
    return Path("/sys/fs/cgroup/cgroup.controllers").is_file()


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """Podman as root, once per session."""
    podman = Podman(current_run().make_folder("podman"))
    try:
        podman.start()
        yield podman
    finally:
        podman.remove()


@pytest.fixture(scope="session")
def podman_image(
    podman: Podman,
    stack: LocalStack,
    engine_client: docker.APIClient,
    base_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ImageRef]:
    """The base image, by digest, in a registry that asks nobody for a login."""
    folder, program = tmp_path_factory.mktemp("podman-registry"), registry_program(stack)
    digest = push(program, folder, engine_client, base_image)
    host = f"127.0.0.1:{reserve_port()}"
    with run_registry(program, folder, host):
        yield parse_image_ref(f"{host}/{REPOSITORY}@{digest}")
