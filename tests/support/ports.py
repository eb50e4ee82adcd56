"""TCP ports that belong to this run of tests alone."""

from __future__ import annotations

import secrets
import socket
from functools import cache
from pathlib import Path

from tests.support.run_id import current_run

#: From these the kernel takes the local ports of outgoing connections, and of listeners that ask for port 0.
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_COUNT = 10_000
_LOWEST, _HIGHEST = 1024, 65535
_ATTEMPTS = 1000


def reserve_port() -> int:
    """
    Return a free port that neither other runs nor outgoing connections take.

    It stays the run's until all its processes have ended, whether something listens on it or not.
    """
    run = current_run()
    for _ in range(_ATTEMPTS):
        port = secrets.choice(port_range())
        if run.claim("port", str(port)) and _is_free(port):
            return port
    raise RuntimeError(f"no free port in {port_range()} in {_ATTEMPTS} attempts; see {run.state}/claims")


@cache
def port_range() -> range:
    """
    Return the ports to choose from.

    They are outside the ephemeral range, if there are enough ports outside of it.
    """
    try:
        first, last = map(int, _EPHEMERAL.read_text().split())
    except OSError:
        first, last = 32768, 60999  # Linux's defaults
    if first - _COUNT >= _LOWEST:
        return range(first - _COUNT, first)
    if last + _COUNT <= _HIGHEST:
        return range(last + 1, last + 1 + _COUNT)
    return range(20_000, 20_000 + _COUNT)


def _is_free(port: int) -> bool:
    """Tell whether nobody listens on ``port`` of any of this machine's addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: connections that are merely closing down (TIME_WAIT) do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
