"""
A small Docker Engine for a test, beside the machine's.

It has no network to the outside, and is removed afterwards.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import docker.errors
import pytest
from docker.api import APIClient

from tests.support.dead_runs import remove_tree
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until


@contextmanager
def run_own_engine(
    *arguments: str, megabytes: int = 24, driver: str = "vfs", before: str = ":"
) -> Iterator[str]:
    """
    Run an engine with a small disk; yield its URL.

    The test is skipped if none can be started.

    :param arguments: of ``dockerd``, beside those that keep it away from the machine's engine.
    :param driver: of the engine's storage.
    :param before: commands of a shell that run first, in the engine's network and with its mounts.
    """
    dockerd = shutil.which("dockerd", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if os.geteuid() != 0 or dockerd is None:
        pytest.skip("an engine of the test's own needs root and dockerd")
    # A unix socket's path may have 107 characters; pytest's folders can be longer.
    folder = current_run().make_folder("engine")
    disk, socket_path = folder / "disk", folder / "engine.sock"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)], check=True)
    # In a network of its own: an engine with --bridge=none deletes the interface docker0, the machine's
    # engine's too.
    command = ["unshare", "--net", "--mount", "sh", "-ec", f'{before}\nexec "$@"', "sh", dockerd]
    command += [f"--host=unix://{socket_path}", f"--data-root={disk}", f"--storage-driver={driver}"]
    command += [f"--exec-root={folder / 'exec'}", f"--pidfile={folder / 'pid'}"]
    command += ["--bridge=none", "--iptables=false", "--ip6tables=false", *arguments]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        log_file = folder / "log"
        wait_until(
            lambda: process.poll() is not None or _answers(socket_path), f"the engine answers ({log_file})"
        )
        assert process.poll() is None, log_file.read_text()[-2000:]
        yield f"unix://{socket_path}"
    finally:
        process.terminate()
        process.wait(scaled(60))
        remove_tree(folder)


def _answers(path: Path) -> bool:
    with suppress(OSError, docker.errors.DockerException), socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        client = APIClient(base_url=f"unix://{path}")
        try:
            return bool(client.ping())
        finally:
            client.close()
    return False
