"""A neighbour of this machine at a link-local address, as a cloud's metadata server is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import wait_until

#: Not 169.254.169.254: this machine may need its own.
ADDRESS, PORT = "169.254.77.2", 80
_MACHINES_ADDRESS = "169.254.77.1/30"
_LISTEN = f"import socket, time; kept = socket.create_server(('0.0.0.0', {PORT})); time.sleep(3600)"


@contextmanager
def run_neighbour() -> Iterator[tuple[str, int]]:
    """Yield where it listens. Needs root. Its network ends with it, and it with this process."""
    # setpriv: the kernel kills it when the tests' process ends.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", sys.executable, "-c", _LISTEN]
    process = subprocess.Popen(command)
    try:
        own, namespace = Path("/proc/self/ns/net"), Path(f"/proc/{process.pid}/ns/net")
        wait_until(lambda: namespace.readlink() != own.readlink(), "the neighbour has a network of its own")
        name, inside = f"ctll{process.pid}", ["nsenter", "-t", str(process.pid), "-n"]
        peer = ["peer", "name", "eth0", "netns", str(process.pid)]
        for step in (
            ["ip", "link", "add", name, "type", "veth", *peer],
            ["ip", "addr", "add", _MACHINES_ADDRESS, "dev", name],
            ["ip", "link", "set", name, "up"],
            [*inside, "ip", "addr", "add", f"{ADDRESS}/30", "dev", "eth0"],
            [*inside, "ip", "link", "set", "eth0", "up"],
        ):
            subprocess.run(step, check=True)
        yield ADDRESS, PORT
    finally:
        process.kill()
        process.wait()
