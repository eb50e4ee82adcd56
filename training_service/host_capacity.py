"""What the engine's host has, under this service's settings: the room that jobs share, and the accelerators."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from functools import cached_property

from container_training.core.capacity import Capacity
from container_training.core.errors import QuotaExceeded
from container_training.core.job_spec import JobSpec
from container_training.core.machines import ACCELERATOR_COUNTS, Resources, usable
from training_service.engine.base import Engine


class Accelerators(StrEnum):
    """What becomes of a job that asks for GPUs."""

    REQUIRE = "require"  #: it gets them, or is refused when it is created
    IGNORE = "ignore"  #: it runs without, and its log says so


class HostCapacity:
    """
    The room of one engine's host; asked for once, when it is first needed.

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

    @cached_property
    def capacity(self) -> Capacity:
        """
        The room.

        :raises EngineUnavailable: nobody knows: the engine does not answer.
        """
        host = self._engine.host_resources()
        gpus = host.gpus if self._accelerators is Accelerators.REQUIRE else 0
        whole = usable(host)
        each = usable(host, cpu_limit=self._cpu_limit, memory_limit_bytes=self._memory_limit_bytes)
        return Capacity(
            each=each,
            total=Resources(
                cpus=whole.cpus * self._overcommit,
                memory_bytes=int(whole.memory_bytes * self._overcommit),
                gpus=gpus,
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
