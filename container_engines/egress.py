"""What containers of jobs may reach, and the packet filter's rules for it. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import Self

from container_engines.confinement import MACHINE_NAME

IPNetwork = IPv4Network | IPv6Network

#: Where clouds tell a machine who it is, often with its credentials, and what else is on its link: RFC 3927
#: and RFC 4291; Amazon and Google over IPv6; Azure's, Alibaba's and Oracle's, which are not link-local.
_LINK_LOCAL = (
    "169.254.0.0/16",
    "fe80::/10",
    "fd00:ec2::/32",
    "fd20:ce::254",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
)
#: RFC 1918, 6598 (carrier-grade NAT), 6890 and 2544; multicast and reserved; RFC 4193 (ULA).
_PRIVATE = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/3",
    "fc00::/7",
    "fec0::/10",
    "ff00::/8",
)
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")
#: Of the 15 characters that the name of a network interface may have.
_PREFIX, _MARK_LENGTH, _JOB_LENGTH = "ct", 6, 7


class EgressMode(StrEnum):
    """How far containers get, beside their job's network and the endpoints that they need."""

    OPEN = "open"  #: everywhere but to link-local addresses and to the engine's machine
    INTERNET = "internet"  #: and not into private networks
    NONE = "none"  #: nowhere


@dataclass(frozen=True, slots=True)
class Endpoint:
    """
    A place that containers may reach by TCP and UDP, whatever else is closed.

    :param host: a name, an address, or a network (``10.1.0.0/16``).
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: object) -> Self:
        """Return ``HOST:PORT``, IPv6 in brackets. :raises ValueError: it is something else."""
        host, _, port = str(text).rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        is_port = port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16
        if not is_port or not (_network_of(host) or _NAME.fullmatch(host)):
            raise ValueError(
                f"an endpoint must be HOST:PORT, where HOST is a name, an address or a network, got {text!r}; "
                "examples: mlflow.example.com:5000, 10.1.0.0/16:443, [fd00::1]:443"
            )
        return cls(host, int(port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def network(self) -> IPNetwork | None:
        """The addresses that ``host`` spells out; ``None``: it is a name."""
        return _network_of(self.host)

    @property
    def is_machine(self) -> bool:
        """Whether it is the engine's machine, at any of its addresses."""
        return self.host == MACHINE_NAME


@dataclass(frozen=True, slots=True)
class Egress:
    """What containers of jobs may reach."""

    mode: EgressMode = EgressMode.OPEN
    endpoints: tuple[Endpoint, ...] = ()

    @property
    def digest(self) -> str:
        """Another one where something else is reached; 32 characters."""
        text = " ".join([self.mode, *sorted(map(str, self.endpoints))])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def mark_of(service_id: str) -> str:
    """Return what tells a service's networks, and their rules, from those of others."""
    return _short(service_id, _MARK_LENGTH)


def bridge_of(mark: str, job_uid: str) -> str:
    """Return the name of the machine's interface to a job's network; the rules know it."""
    return f"{_PREFIX}{mark}{_short(job_uid, _JOB_LENGTH)}"


def shared_bridge_of(mark: str) -> str:
    """Return the name of a machine's interface to all jobs' containers there; the rules know it."""
    return f"{_PREFIX}{mark}shared"


def table_of(mark: str) -> str:
    """Return the name of the table of the rules."""
    return f"container_training_{mark}"


def ruleset(mark: str, mode: EgressMode, reachable: Iterable[tuple[IPNetwork | None, int]]) -> str:
    """
    Return the rules, for ``nft``, which replaces those of an earlier call in one step.

    They look at what comes from the jobs' networks before anything redirects it (``prerouting``, after the
    tracking of connections, priority -200, and before the engine's own rules, -100). So a published port of
    the machine is the machine. A table of our own is touched neither by the engine nor by other firewalls,
    and an ``accept`` of theirs does not outweigh its ``reject``.

    In the shared bridge none reaches another, whatever else is open.

    :param reachable: networks with a port; ``None``: every address of the machine itself.
    """
    table, jobs = table_of(mark), f'iifname "{_PREFIX}{mark}*"'
    closed = {
        EgressMode.OPEN: _closed(_LINK_LOCAL),
        EgressMode.INTERNET: _closed((*_LINK_LOCAL, *_PRIVATE)),
        EgressMode.NONE: ["goto closed"],
    }
    names = [] if mode is EgressMode.NONE else ["meta l4proto { tcp, udp } th dport 53 accept"]
    # The same network: the way to the destination is the interface that it came from.
    inside = "fib daddr . iif oif exists"
    rules = [
        "ct state established,related accept",
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept",
        f'iifname "{shared_bridge_of(mark)}" {inside} goto closed',
        *names,
        *(
            f"{_destination(network)} meta l4proto {{ tcp, udp }} th dport {port} accept"
            for network, port in reachable
        ),
        "fib daddr type local goto closed",
        f"{inside} accept",
        *closed[mode],
    ]
    return "\n".join(
        [
            f"table inet {table} {{}}",
            f"delete table inet {table}",
            f"table inet {table} {{",
            "chain closed { reject with icmpx type admin-prohibited; }",
            "chain job {",
            *rules,
            "}",
            f"chain leaving {{ type filter hook prerouting priority -150; {jobs} jump job; }}",
            # Listeners on 0.0.0.0 also get what is sent to all.
            "chain arriving { type filter hook input priority 0;",
            f"{jobs} icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept",
            f"{jobs} fib daddr type {{ broadcast, multicast }} drop",
            "}",
            "}",
        ]
    )


def _closed(networks: Iterable[str]) -> list[str]:
    parsed = [ip_network(text) for text in networks]
    v4 = collapse_addresses(each for each in parsed if isinstance(each, IPv4Network))
    v6 = collapse_addresses(each for each in parsed if isinstance(each, IPv6Network))
    return [
        f"ip daddr {{ {', '.join(map(str, v4))} }} goto closed",
        f"ip6 daddr {{ {', '.join(map(str, v6))} }} goto closed",
    ]


def _destination(network: IPNetwork | None) -> str:
    if network is None:
        return "fib daddr type local"
    return f"{'ip' if network.version == 4 else 'ip6'} daddr {network}"


def _network_of(host: str) -> IPNetwork | None:
    try:
        return ip_network(host)
    except ValueError:
        return None


def _short(text: str, length: int) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()[:length]
