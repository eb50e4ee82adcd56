"""Where the endpoints of ``egress.py`` are: names are looked up on this machine."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_network

import structlog

from container_engines.egress import Egress, EgressMode, Endpoint, IPNetwork

_NO_SERVER = "192.0.2.1"

logger = structlog.get_logger(__name__)


class EndpointAddresses:
    """
    The addresses of what containers may reach.

    A name that is no longer found keeps its last ones.
    """

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        #: Of endpoints that are names, as they were found last.
        self._found: dict[str, Sequence[str]] = {}

    @property
    def dns(self) -> Sequence[str]:
        """Name servers of containers; empty: the engine's."""
        # Otherwise the engine asks for them, and so carries out what cannot leave. This one does not exist.
        return [_NO_SERVER] if self._egress.mode is EgressMode.NONE else []

    @property
    def hosts(self) -> Mapping[str, str]:
        """Addresses of endpoints that containers cannot look up, as ``look_up`` found them."""
        is_needed = self._egress.mode is EgressMode.NONE
        return {name: found[0] for name, found in self._found.copy().items()} if is_needed else {}

    def look_up(self) -> list[tuple[IPNetwork | None, int]]:
        """
        Return networks with a port; ``None``: every address of the engine's machine.

        Names are looked up here: the machine's own look-up may not be ready yet, or not there.
        """
        found: list[tuple[IPNetwork | None, int]] = []
        for endpoint in self._egress.endpoints:
            if endpoint.is_machine:
                found.append((None, endpoint.port))
            elif endpoint.network is not None:
                found.append((endpoint.network, endpoint.port))
            else:
                found += [(ip_network(address), endpoint.port) for address in self._addresses_of(endpoint)]
        return found

    def _addresses_of(self, endpoint: Endpoint) -> Sequence[str]:
        try:
            found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
            self._found[endpoint.host] = [*dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found)]
        except OSError as error:
            known = endpoint.host in self._found
            logger.warning(
                "the name of an endpoint of jobs cannot be looked up here",
                host=endpoint.host,
                reason=str(error),
                effect="its address of before stays open" if known else "jobs do not reach it",
            )
        return self._found.get(endpoint.host, ())
