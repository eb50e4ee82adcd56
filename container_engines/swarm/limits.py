"""The machines of a swarm that limit what replicas reach, and the way out there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from container_engines.egress import Egress
from container_engines.endpoint_addresses import EndpointAddresses
from container_engines.swarm.facts import NodeFacts
from container_engines.swarm.tasks import Node
from container_engines.swarm.way_out import WayOut
from training_api.errors import EngineUnavailable

#: How often names of endpoints are looked up; containers get their addresses.
_LOOK_UP_SECONDS = 60.0


class EgressLimits:
    """
    The limits of one training service, which the agents of machines put in place.

    :param facts: what agents say of their machines.
    :param clock: seconds, from any origin.
    """

    def __init__(self, egress: Egress, facts: NodeFacts, clock: Callable[[], float] = time.monotonic) -> None:
        self._egress = egress
        self._facts = facts
        self._clock = clock
        self._addresses = EndpointAddresses(egress)
        self._looked_up_at = -math.inf

    def hold_on(self, node: Node) -> bool:
        """Whether the agent of a machine has just said that they are in place."""
        return self._facts.holds_egress(node.node_id, self._egress.digest)

    def check(self, node: Node | None) -> None:
        """:raises EngineUnavailable: no replica may start here; ``None``: it is unknown."""
        if node is None or not self.hold_on(node):
            name = node.name if node else "unknown"
            raise EngineUnavailable(
                f"machine {name} takes no replica: its agent has not put the rules of TRAINING_EGRESS in place"
            )

    def keep(self) -> None:
        """Look up the names of endpoints, unless that was done lately."""
        if self._clock() - self._looked_up_at > _LOOK_UP_SECONDS:
            self._addresses.look_up()
            self._looked_up_at = self._clock()

    def way_out(self, network_id: str) -> WayOut:
        """Return what a replica's service needs to join the network of the way out."""
        return WayOut(network_id, dns=self._addresses.dns, hosts=self._addresses.hosts)
