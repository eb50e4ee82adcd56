"""What the engine's host has, under this service's settings: the room that jobs share, and the accelerators."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from container_engines.base import Engine
from training_api.errors import QuotaExceeded
from training_api.job.capacity import Capacity
from training_api.job.job_spec import JobSpec
from training_api.job.machines import ACCELERATOR_COUNTS, Resources, usable


class Accelerators(StrEnum):
    """What becomes of a job that asks for GPUs."""

    REQUIRE = "require"  #: it gets them, or is refused when it is created
    IGNORE = "ignore"  #: it runs without, and its log says so


#: Machines come and go: how old an answer may be.
_FRESH_SECONDS = 10.0


class HostCapacity:
    """
    The room of an engine's machines; asked for when it is needed, every ten seconds at most.

    :param overcommit: how many times over cores and memory may be promised; 1: never more than there is.
    :param max_replicas: how many containers of jobs there may be; 0: any number.
    :param cpu_limit: cores that one container may have at most; 0: all.
    :param memory_limit_bytes: bytes that one container may have at most; 0: all but a reserve.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        overcommit: float = 4.0,
        max_replicas: int = 0,
        cpu_limit: float = 0,
        memory_limit_bytes: int = 0,
        accelerators: Accelerators = Accelerators.REQUIRE,
    ) -> None:
        self._engine = engine
        self._overcommit = overcommit
        self._max_replicas = max_replicas
        self._cpu_limit = cpu_limit
        self._memory_limit_bytes = memory_limit_bytes
        self._accelerators = accelerators
        self._lock = threading.Lock()
        self._known: Capacity | None = None
        self._known_at = 0.0

    @property
    def capacity(self) -> Capacity:
        """
        The room.

        :raises EngineUnavailable: nobody knows: the engine does not answer.
        """
        with self._lock:
            if self._known is None or time.monotonic() - self._known_at > _FRESH_SECONDS:
                self._known = self._capacity_of(self._engine.hosts())
                self._known_at = time.monotonic()
            return self._known

    def _capacity_of(self, hosts: Sequence[Resources]) -> Capacity:
        """
        Return the room of ``hosts`` together; one container has at most what the largest of them has.

        "Largest" by cores, memory and GPUs each: a limit need not be reached, and a machine may be the largest in one
        of them only.
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
        )

    def check_quota(self, spec: JobSpec) -> None:
        """
        Let a job pass whose accelerators this machine has, or does without.

        :raises QuotaExceeded: it could never run here. The text is the real service's
            [issue: FIRST-Tech-Challenge/fmltc#318].
        :raises EngineUnavailable: nobody knows: the engine does not answer.
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
            "jobs without (TRAINING_ACCELERATORS=ignore).",
            code=429,
            status="RESOURCE_EXHAUSTED",
        )


def _short(kind: str) -> str:
    return kind.removeprefix("NVIDIA_TESLA_")
