"""A Docker Swarm of machines on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import docker
import docker.errors
import requests

from tests.support.bed.machines import START_SECONDS, Machines, Node
from tests.support.speed import drawn_out
from tests.support.waiting import wait_until

#: How often nodes of an idle machine report; one that is silent for about three times as long is down.
_HEARTBEAT_SECONDS = 2.0


class Swarm(Machines):
    """A manager that runs containers too, and workers, joined."""

    def up(self) -> None:
        """Start all nodes and join them."""
        super().up()
        manager = self.manager.client()
        specification = manager.create_swarm_spec(
            dispatcher_heartbeat_period=round(drawn_out(_HEARTBEAT_SECONDS) * 10**9)
        )
        first = self.manager.address
        manager.init_swarm(first, f"{first}:2377", swarm_spec=specification, data_path_addr=first)
        token = manager.inspect_swarm()["JoinTokens"]["Worker"]
        manager.close()
        for node in self.nodes[1:]:
            client = node.client()
            client.join_swarm(
                [f"{first}:2377"], token, f"{node.address}:2377", node.address, data_path_addr=node.address
            )
            client.close()
        self.wait_for_ready()

    @property
    def manager(self) -> Node:
        """The node that is asked."""
        return self.nodes[0]

    def wait_for_ready(self) -> None:
        """Return when the manager sees every node."""
        client = self.manager.client()

        def all_ready() -> bool:
            return [node["Status"]["State"] for node in client.nodes()] == ["ready"] * self.count

        wait_until(
            all_ready,
            "every node is ready",
            seconds=START_SECONDS,
            ignoring=(docker.errors.APIError, requests.RequestException),  # the manager has no leader yet
        )
        client.close()


def set_availability(manager: docker.APIClient, name: str, availability: str) -> str:
    """Have a machine of the swarm ``drain``, or take part again (``active``); return its id."""

    def change() -> str:
        (node,) = [item for item in manager.nodes() if item["Description"]["Hostname"] == name]
        manager.update_node(
            node["ID"], node["Version"]["Index"], {**node["Spec"], "Availability": availability}
        )
        return str(node["ID"])

    # The swarm refuses to change a node that it has just changed itself: "update out of sequence".
    return wait_until(change, f"{name} is {availability}", ignoring=docker.errors.APIError)


@contextmanager
def drained(manager: docker.APIClient, name: str) -> Iterator[str]:
    """Have no replica start on a machine within the block, which gets the machine's id."""
    node_id = set_availability(manager, name, "drain")
    try:
        yield node_id
    finally:
        set_availability(manager, name, "active")
