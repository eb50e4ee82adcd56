"""The networks that the replicas of a service's jobs join on a Docker Engine."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from container_engines.base import ReplicaLaunch
from container_engines.docker.driver import DEFAULT_NETWORK, DockerDriver
from container_engines.docker.packet_filter import PacketFilter, start_of
from container_engines.egress import mark_of
from container_engines.labels import JOB_UID, SERVICE, job_labels
from training_api.errors import EngineError, EngineUnavailable

#: Interfaces of one bridge [Linux: BR_MAX_PORTS, of which port 0 is never used].
_MOST_PORTS = 1023
#: Addresses that no container gets (the network's, the gateway's, the broadcast's), and those of containers
#: that are being started and are in no list yet.
_RESERVE = 3 + 16

logger = structlog.get_logger(__name__)


class JobNetworks:
    """
    Makes the networks of one service's jobs; safe for threads.

    A job of several replicas gets a network, in which they reach each other by name. Jobs of one replica
    share a network that keeps its containers apart. A network for each of them would delay its start, and an
    engine has addresses for about thirty by default.

    The shared network stays when the service ends, because jobs go on.

    :param packet_filter: the rules for all of these networks; ``None``: there are none.
    """

    def __init__(self, service_id: str, packet_filter: PacketFilter | None) -> None:
        self._service_id = service_id
        self._filter = packet_filter
        self._shared = f"ct-shared-{mark_of(service_id)}"
        self._lock = threading.Lock()
        self._is_refused = False
        #: Whether there may be networks of single jobs, including those that an earlier service left.
        self._may_exist = True
        self._room = 0
        self._sharing = 0

    def can_share(self, driver: DockerDriver) -> bool:
        """Whether jobs of one replica share a network."""
        return driver.kind.closes_networks and not self._is_refused

    def confine(self, driver: DockerDriver) -> None:
        """
        Put the rules in place again, whatever became of them.

        :raises EngineError: they cannot be had.
        """
        self._is_refused, self._may_exist = False, True
        if self._filter:
            self._filter.renew()
            self._filter.ensure(start_of(driver.network_ids(DEFAULT_NETWORK)))

    def ensure(self, driver: DockerDriver, launch: ReplicaLaunch) -> str:
        """Make the network that a replica joins unless it is there; return its name."""
        own = f"ct-{launch.job_uid}"
        with self._lock:
            found = driver.network_ids(own, self._shared, DEFAULT_NETWORK)
            if self._filter:
                self._filter.ensure(start_of(found))
            # A job that an older version started keeps its network.
            if own in found:
                return own
            if launch.is_alone and self._has_shared(driver, is_there=self._shared in found):
                return self._shared
            bridge = self._filter.bridge_of(launch.job_uid) if self._filter else ""
            try:
                driver.make_network(own, job_labels(self._service_id, launch), bridge)
            finally:
                self._may_exist = True
            return own

    def of_jobs(self, driver: DockerDriver) -> list[dict[str, Any]]:
        """
        Return the networks of single jobs, as the engine lists them.

        It is not asked while there can be none.
        """
        if not self._may_exist:
            return []
        # One that is made while the engine lists them sets it again.
        self._may_exist = False
        try:
            found = driver.networks(f"{SERVICE}={self._service_id}", JOB_UID)
        except EngineError:
            self._may_exist = True
            raise
        if found:
            self._may_exist = True
        return found

    def count(self, containers: Iterable[Mapping[str, Any]]) -> None:
        """Note how many of the service's ``containers``, as the engine lists them, share a network."""
        self._sharing = sum(self._shared in item["NetworkSettings"]["Networks"] for item in containers)

    def _has_shared(self, driver: DockerDriver, *, is_there: bool) -> bool:
        """Make the shared network unless ``is_there``; tell whether one more replica can join it."""
        if not self.can_share(driver):
            return False
        if not is_there:
            bridge = self._filter.shared_bridge if self._filter else ""
            try:
                driver.make_network(self._shared, {SERVICE: self._service_id}, bridge, is_closed=True)
            except EngineUnavailable:
                raise
            except EngineError as error:
                logger.warning("jobs of one replica cannot share a network; each gets one", reason=str(error))
                self._is_refused = True
                return False
        if not is_there or not self._room:
            self._room = min(driver.addresses_of(self._shared), _MOST_PORTS) - _RESERVE
        return self._sharing < self._room
