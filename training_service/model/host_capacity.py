"""The engine's host under this service's settings: its capacity for jobs, its accelerators."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum

from container_engines.base import Engine
from training_api.errors import EngineUnavailable, QuotaExceeded
from training_api.job.capacity import Capacity
from training_api.job.job_spec import JobSpec
from training_api.job.machines import ACCELERATOR_COUNTS, Resources, usable
from training_service.model.probe import Probe


class Accelerators(StrEnum):
    """What becomes of a job that asks for GPUs."""

    REQUIRE = "require"  #: it gets them, or is refused when it is created
    IGNORE = "ignore"  #: it runs without, and its log says so


#: The greatest age of a cached answer: machines come and go.
_FRESH_SECONDS = 10.0


class HostCapacity:
    """
    The capacity of an engine's machines; asks the engine at most every ten seconds.

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

    def _capacity_of(self, hosts: Sequence[Resources]) -> Capacity:
        """
        Return the capacity of ``hosts`` together; a container's limit is that of the largest.

        "Largest" separately for cores, memory and GPUs: a container need not reach a limit, and a machine may
        be the largest in only one of them.
        """
        each = [
            usable(host, cpu_limit=self._cpu_limit, memory_limit_bytes=self._memory_limit_bytes)
            for host in hosts
        ]
        whole = [usable(host) for host in hosts]
        counts_gpus = self._accelerators is Accelerators.REQUIRE
        return Capacity(
            each=Resources(
                cpus=max(host.cpus for host in each),
                memory_bytes=max(host.memory_bytes for host in each),
                gpus=max(host.gpus for host in each),
            ),
            total=Resources(
                cpus=sum(host.cpus for host in whole) * self._overcommit,
                memory_bytes=int(sum(host.memory_bytes for host in whole) * self._overcommit),
                gpus=sum(host.gpus for host in whole) if counts_gpus else 0,
            ),
            replicas=self._max_replicas,
            networks=self._max_networks or self._engine.max_networks() or 0,
        )

    def check_quota(self, spec: JobSpec) -> None:
        """
        Check that this machine has the accelerators of a job, or may ignore them.

        :raises QuotaExceeded: the job could never run here. The text is the real service's
            [issue: FIRST-Tech-Challenge/fmltc#318].
        :raises EngineUnavailable: it is unknown, as the engine does not answer.
        """
        wanted = Counter({replica.gpu: 0 for replica in spec.replicas if replica.gpu})
        for replica in spec.replicas:
            if replica.gpu:
                wanted[replica.gpu] += replica.gpus
        if not wanted or self._accelerators is Accelerators.IGNORE:
            return
        there = self.capacity.total.gpus
        if wanted.total() <= there:
            return
        asked = ", ".join(f"{count} {_short(kind)}" for kind, count in wanted.items())
        maximum = ", ".join(f"{there} {_short(kind)}" for kind in sorted(ACCELERATOR_COUNTS))
        raise QuotaExceeded(
            f"Quota failure for project {spec.project}. The request for {asked} accelerators exceeds the allowed "
            f"maximum of {maximum}: this machine has {there} GPUs in all. Ask for fewer, or have the service run such "
            "jobs without (TRAINING_ACCELERATORS=ignore)."
        )


def within(seconds: float, capacity: Callable[[], Capacity]) -> Callable[[], Capacity]:
    """Return ``capacity`` for callers that cannot wait: it raises ``EngineUnavailable`` in time."""
    probe = Probe(capacity, seconds)

    def ask() -> Capacity:
        try:
            return probe.ask()
        except TimeoutError as error:
            raise EngineUnavailable(f"the engine did not say what it has within {seconds:g} s") from error

    return ask


def _short(kind: str) -> str:
    return kind.removeprefix("NVIDIA_TESLA_")
