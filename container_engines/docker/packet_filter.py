"""
The rules of ``egress.py`` on a Docker Engine's machine.

The machine's own ``nft`` puts them in place (``machine_program.py``), once and not for each job: they name
the interfaces of all networks that the service will ever make. They outlive the service and the engine.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import structlog

from container_engines.docker.client import DockerConnection
from container_engines.docker.driver import DEFAULT_NETWORK
from container_engines.docker.machine_program import run_on_machine
from container_engines.egress import Egress, EgressMode, bridge_of, mark_of, ruleset, shared_bridge_of
from container_engines.endpoint_addresses import EndpointAddresses
from container_engines.labels import SERVICE
from training_api.errors import EngineBusy, EngineError, EngineUnavailable

#: Attempts in a row that a busy engine refuses before jobs start without the rules, where they may.
_ATTEMPTS = 4

logger = structlog.get_logger(__name__)


class PacketFilter:
    """
    Keeps the rules for the job networks of one service in place; safe for threads.

    :param connection: leads to the engine.
    :param service_id: each service has its own rules.
    """

    def __init__(self, connection: DockerConnection, service_id: str, egress: Egress) -> None:
        self._connection = connection
        self._labels = {SERVICE: service_id}
        self._mark = mark_of(service_id)
        self._egress = egress
        #: Of what containers may reach.
        self.addresses = EndpointAddresses(egress)
        self._lock = threading.Lock()
        #: Of the engine, when the rules were put in place.
        self._start: str | None = None
        self._refused = 0

    def bridge_of(self, job_uid: str) -> str:
        """Return the name that the interface of a job's network must have."""
        return bridge_of(self._mark, job_uid)

    @property
    def shared_bridge(self) -> str:
        """The name that the interface of the network must have that jobs share."""
        return shared_bridge_of(self._mark)

    def ensure(self, start: str) -> None:
        """
        Put the rules in place, unless that was done since ``start`` of the engine.

        :param start: another one after each start of the engine, with which the machine may have started.
        :raises EngineBusy: they cannot be had now; also in mode ``open``, the first times.
        :raises EngineError: they cannot be had. Where the mode is ``open``, a line of the log says so.
        """
        with self._lock:
            if self._start == start:
                return
            try:
                self._put_in_place()
            except EngineUnavailable:
                raise
            except EngineBusy as error:
                self._refused += 1
                if self._refused < _ATTEMPTS:
                    raise
                self._tell(error, EngineBusy)
                return
            except EngineError as error:
                self._tell(error, EngineError)
            self._start, self._refused = start, 0

    def renew(self) -> None:
        """Have the next ``ensure`` put the rules in place again, whatever became of them."""
        with self._lock:
            self._start = None

    def _tell(self, error: EngineError, kind: type[EngineError]) -> None:
        message = (
            f"TRAINING_EGRESS={self._egress.mode} cannot be enforced on the engine's machine: {error}; it needs the "
            "program nft there (package nftables) and Linux 5.10 or newer"
        )
        if self._egress.mode is not EgressMode.OPEN:
            raise kind(f"{message}; TRAINING_EGRESS=open starts jobs without it") from error
        logger.warning("jobs reach link-local addresses and the engine's machine", reason=message)

    def _put_in_place(self) -> None:
        reachable = self.addresses.look_up()
        rules = ruleset(self._mark, self._egress.mode, reachable)
        run_on_machine(self._connection, ["nft", rules], name=f"ct-egress-{self._mark}", labels=self._labels)


def start_of(network_ids: Mapping[str, str]) -> str:
    """
    Return what is another one after each start of the engine.

    It makes its default network anew, unless containers have gone on without it [moby:
    initNetworkController].

    :param network_ids: of the engine, by name.
    """
    return network_ids.get(DEFAULT_NETWORK, "")
