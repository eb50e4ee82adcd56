"""The engine's host under this service's settings: its capacity for jobs, its accelerators."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum

from container_engines.base import Engine
from training_api.errors import EngineUnavailable, QuotaExceeded
from training_api.job.capacity import Capacity
from training_api.job.dialect import Dialect
from training_api.job.job_spec import JobSpec
from training_api.job.machines import Resources, usable
from training_api.job.placement import FreeRoom, MachineRoom, Placement
from training_service.model.placement_label import check_placement
from training_service.model.probe import Probe


class Accelerators(StrEnum):
    """What becomes of a job that asks for GPUs."""

    REQUIRE = "require"  #: it gets them, or is refused when it is created
    IGNORE = "ignore"  #: it runs without, and its log says so


#: The greatest age of a cached answer: machines come and go, and what runs on one that dies waits for this.
_FRESH_SECONDS = 5.0


class HostCapacity:
    """
    The capacity of an engine's machines; asks the engine at most every five seconds.

    :param overcommit: how many times over cores and memory may be promised; 1: never more than there is.
    :param max_replicas: how many containers of jobs there may be; 0: any number.
    :param max_networks: how many networks of jobs there may be; 0: as many as the engine has addresses for.
    :param cpu_limit: cores that one container may have at most; 0: all.
    :param memory_limit_bytes: bytes that one container may have at most; 0: all but a reserve.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        overcommit: float = 4.0,
        max_replicas: int = 0,
        max_networks: int = 0,
        cpu_limit: float = 0,
        memory_limit_bytes: int = 0,
        accelerators: Accelerators = Accelerators.REQUIRE,
    ) -> None:
        self._engine = engine
        self._overcommit = overcommit
        self._max_replicas = max_replicas
        self._max_networks = max_networks
        self._cpu_limit = cpu_limit
        self._memory_limit_bytes = memory_limit_bytes
        self._accelerators = accelerators
        self._lock = threading.Lock()
        self._known: Capacity | None = None
        self._known_at = 0.0

    @property
    def capacity(self) -> Capacity:
        """
        The capacity for jobs.

        :raises EngineUnavailable: it is unknown, as the engine does not answer.
        """
        with self._lock:
            if self._known is None or time.monotonic() - self._known_at > _FRESH_SECONDS:
                self._known = self._capacity_of(self._engine.hosts())
                self._known_at = time.monotonic()
            return self._known

    def _capacity_of(self, hosts: Mapping[str, Resources]) -> Capacity:
        """
        Return the capacity of ``hosts``, of each and of all together.

        What one container may have at most is "the largest" separately for cores, memory and GPUs, which may
        be of three machines: it is for people. Jobs are cut to the room of single machines.
        """
        rooms = {machine: self._room_of(host) for machine, host in hosts.items()}
        return Capacity(
            each=Resources(
                cpus=max(room.each.cpus for room in rooms.values()),
                memory_bytes=max(room.each.memory_bytes for room in rooms.values()),
                gpus=max(room.each.gpus for room in rooms.values()),
            ),
            total=Resources(
                cpus=sum(room.total.cpus for room in rooms.values()),
                memory_bytes=sum(room.total.memory_bytes for room in rooms.values()),
                gpus=sum(room.total.gpus for room in rooms.values()),
            ),
            replicas=self._max_replicas,
            networks=self._max_networks or self._engine.max_networks() or 0,
            shares_network=self._engine.shares_network(),
            job_replicas=self._engine.max_job_replicas() or 0,
            machines=rooms if set(rooms) != {""} else {},
            overcommit=self._overcommit,
        )

    def _room_of(self, host: Resources) -> MachineRoom:
        each = usable(host, cpu_limit=self._cpu_limit, memory_limit_bytes=self._memory_limit_bytes)
        whole = usable(host)
        return MachineRoom(
            each=each,
            total=Resources(
                cpus=whole.cpus * self._overcommit,
                memory_bytes=int(whole.memory_bytes * self._overcommit),
                gpus=whole.gpus if self._accelerators is Accelerators.REQUIRE else 0,
            ),
        )

    def check_quota(self, spec: JobSpec, dialect: Dialect) -> None:
        """
        Check that the machines have what a job can never do without.

        These are the accelerators, unless they may be ignored, and addresses for its replicas. The engine is
        asked about accelerators only: any other job is taken while it does not answer, and waits.

        :param dialect: the job's, whose words the error is in.
        :raises QuotaExceeded: the job could never run here.
        :raises InvalidJobSpec: its label for the placement names none.
        :raises EngineUnavailable: it is unknown, as the engine does not answer.
        """
        check_placement(spec)
        most = self._known.job_replicas if self._known else 0  # the loop asks as soon as it runs
        if most and len(spec.replicas) > most:
            raise QuotaExceeded(
                f"The job has {len(spec.replicas)} replicas, and the network of a job has addresses for "
                f"{most}. Use fewer and larger replicas."
            )
        wanted = Counter({replica.gpu: 0 for replica in spec.replicas if replica.gpu})
        for replica in spec.replicas:
            if replica.gpu:
                wanted[replica.gpu] += replica.gpus
        if not wanted or self._accelerators is Accelerators.IGNORE:
            return
        capacity = self.capacity
        there = capacity.total.gpus
        lacks = ""
        if wanted.total() > there:
            lacks = f"this machine has {there} GPUs in all"
        elif not _gpus_fit(spec, capacity):
            each = ", ".join(str(room.total.gpus) for room in capacity.rooms.values())
            lacks = f"a replica runs on one machine, and these have {each} GPUs"
        if lacks:
            raise QuotaExceeded(
                f"{dialect.quota_text(spec.project, wanted, there)}: {lacks}. Ask for fewer, or have the service run "
                "such jobs without (TRAINING_ACCELERATORS=ignore)."
            )


def _gpus_fit(spec: JobSpec, capacity: Capacity) -> bool:
    gpus = [Resources(cpus=0, memory_bytes=0, gpus=replica.gpus) for replica in spec.replicas if replica.gpus]
    return FreeRoom(capacity.rooms).put(gpus, Placement.PACK) is not None


def within(seconds: float, capacity: Callable[[], Capacity]) -> Callable[[], Capacity]:
    """Return ``capacity`` for callers that cannot wait: it raises ``EngineUnavailable`` in time."""
    probe = Probe(capacity, seconds)

    def ask() -> Capacity:
        try:
            return probe.ask()
        except TimeoutError as error:
            raise EngineUnavailable(f"the engine did not say what it has within {seconds:g} s") from error

    return ask
