"""Which names of hosts are this machine itself."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Tell whether ``host`` or ``host:port`` is this machine as it names itself."""
    name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"
