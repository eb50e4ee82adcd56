"""
The way out of replicas on one machine: its interface, the rules, and its configuration.

Only with the configuration does a machine start a replica (``way_out.py``), so none runs without the rules.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from container_engines.docker.client import DockerConnection, post
from container_engines.docker.driver import DEFAULT_NETWORK, DockerDriver
from container_engines.docker.errors import engine_errors
from container_engines.docker.machine_program import run_on_machine
from container_engines.docker.packet_filter import PacketFilter, start_of
from container_engines.egress import Egress, mark_of
from container_engines.labels import SERVICE
from container_engines.swarm.agent import AGENT_OF
from container_engines.swarm.way_out import config_name, config_spec, interface_of
from training_api.errors import EngineError

#: How often rules are put in place that should be there: a firewall that is loaded again removes them.
_RENEW_SECONDS = 3600.0
#: What ``ip`` says of an interface that is there.
_EXISTS = "File exists"


class MachineBridge:
    """
    One training service's bridge on the engine's machine. Not safe for threads.

    :param connection: leads to the machine's engine.
    :param clock: seconds, from any origin.
    """

    def __init__(
        self,
        connection: DockerConnection,
        service_id: str,
        egress: Egress,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._service_id = service_id
        self._egress = egress
        self._filter = PacketFilter(connection, service_id, egress)
        self._clock = clock
        self._start: str | None = None
        self._renewed_at = clock()

    def keep(self) -> str:
        """
        Put in place what is missing; return the digest of the egress that holds now.

        :raises EngineError: something is missing still.
        """
        driver = DockerDriver(self._connection.client, self._connection.kind)
        config = config_name(self._service_id)
        found = driver.network_ids(DEFAULT_NETWORK, config)
        start = start_of(found)
        if self._clock() - self._renewed_at > _RENEW_SECONDS:
            self._filter.renew()
            self._renewed_at = self._clock()
        if self._start != start:
            # The engine would make it with the first container and remove it with the last one. What listens
            # on it, the metadata endpoint, does so for longer.
            self._make_interface()
        self._filter.ensure(start)
        if config not in found:
            with engine_errors(f"make the network configuration {config}"):
                spec = config_spec(self._service_id, {AGENT_OF: self._service_id})
                post(self._connection.client, "/networks/create", spec)
        self._start = start
        return self._egress.digest

    def _make_interface(self) -> None:
        name = interface_of(self._service_id)
        try:
            run_on_machine(
                self._connection,
                ["ip", "link", "add", "name", name, "type", "bridge"],
                name=f"ct-bridge-{mark_of(self._service_id)}",
                labels={SERVICE: self._service_id},
            )
        except EngineError as error:
            if _EXISTS not in str(error):
                raise
