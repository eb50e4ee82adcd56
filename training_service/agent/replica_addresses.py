"""
Which container of this machine has an address, by the machine's engine.

Each container of a swarm is also in a bridge of the machine, by which it reaches what is outside of its job's
network, and has an address there: ``docker_gwbridge``, or that of ``container_engines/swarm/way_out.py``. The
engine's description of that network says whose each address is (seen with Engine 20.10).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from training_service.agent.local_engine import API, TIMEOUT_SECONDS
from training_service.metadata.callers import CallerUnknown

#: The bridge; the network interface has the same name. Source: docs.docker.com/engine/swarm/networking,
#: "Customize the docker_gwbridge".
BRIDGE = "docker_gwbridge"


class ReplicaAddresses:
    """
    The containers of one training service on this machine; safe for threads.

    :param socket: path of the engine's socket.
    :param label: ``NAME=VALUE`` that these containers carry.
    :param network: the bridge that they are in, by the name of its network.
    """

    def __init__(
        self,
        socket: str,
        label: str,
        transport: httpx.BaseTransport | None = None,
        *,
        network: str = BRIDGE,
    ) -> None:
        self._network = network
        self._name, _, self._value = label.partition("=")
        self._http = httpx.Client(
            base_url=API, transport=transport or httpx.HTTPTransport(uds=socket), timeout=TIMEOUT_SECONDS
        )
        #: Whether containers that are there are the service's; neither changes while they live.
        self._is_ours: Mapping[str, bool] = {}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def of_service(self) -> frozenset[str]:
        """The service's containers of the last answer that have asked before."""
        return frozenset(key for key, value in self._is_ours.items() if value)

    def container_at(self, address: str) -> str | None:
        """
        Return the id of the container that has ``address`` now.

        ``None``: none of the service has it.

        :raises CallerUnknown: the engine does not answer.
        """
        try:
            found = self._containers().get(address)
            return found if found and self._is_of_service(found) else None
        except (httpx.HTTPError, ValueError, KeyError) as error:
            raise CallerUnknown("the engine of this machine does not answer; ask again") from error

    def _containers(self) -> Mapping[str, str]:
        """Return the container of each address; one that two have is nobody's."""
        answer = self._http.get(f"/networks/{self._network}")
        answer.raise_for_status()
        found: dict[str, str] = {}
        for container_id, endpoint in (answer.json()["Containers"] or {}).items():
            address = endpoint["IPv4Address"].partition("/")[0]
            found[address] = "" if address in found else container_id
        self._is_ours = {key: value for key, value in self._is_ours.items() if key in found.values()}
        return found

    def _is_of_service(self, container_id: str) -> bool:
        known = self._is_ours.get(container_id)
        if known is None:
            answer = self._http.get(f"/containers/{container_id}/json")
            if answer.status_code == httpx.codes.NOT_FOUND:
                return False  # it is just going, or is none of containers
            answer.raise_for_status()
            known = _labels(answer.json()).get(self._name) == self._value
            self._is_ours = {**self._is_ours, container_id: known}
        return known


def _labels(container: Mapping[str, Any]) -> Mapping[str, str]:
    return container["Config"]["Labels"] or {}
