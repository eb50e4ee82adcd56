"""
When a replica is started again: the exit-code table, the counts, the newest run.

A replica that ends with a status other than 0 is restarted at once under the same host name, unless the
status is one that would come again; after five restarts of a replica the whole job is tried again, three
times, then it fails [docs: understanding-training-service]. That page's table of statuses was not found: see
``RETRYABLE_EXIT_CODES``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from training_api.job.cluster import ReplicaId

MAX_REPLICA_RESTARTS = 5
MAX_JOB_RETRIES = 3

#: Statuses that speak of the machine and not of the program: 128 + the signal that ended it. Every other is
#: permanent. [unverified]: the table of Kubeflow's tf-operator, whose authors knew this service.
RETRYABLE_EXIT_CODES: Mapping[int, str] = {
    130: "SIGINT",
    137: "SIGKILL, and the engine did not say that the memory was full",
    138: "SIGUSR1, by which a trainer asks for a restart",
    143: "SIGTERM",
}
#: What the container's init, and shells, mean by these statuses.
EXIT_MEANINGS: Mapping[int, str] = {126: "the program cannot be executed", 127: "the program was not found"}


def is_retryable(exit_code: int, *, out_of_memory: bool) -> bool:
    """
    Tell whether a replica that ended so may succeed next time. Pure.

    A full memory would be full again.
    """
    return exit_code in RETRYABLE_EXIT_CODES and not out_of_memory


class RestartScope(StrEnum):
    """
    What is started again after a failure.

    The order is that of their weight: of several, the last one counts.
    """

    REPLICA = "REPLICA"  #: the replica that failed; after its last restart, the job
    JOB = "JOB"  #: all replicas
    NONE = "NONE"  #: nothing: the job fails


def widest(scopes: Iterable[RestartScope]) -> RestartScope:
    """Return what is started again where all of ``scopes``, at least one, apply. Pure."""
    return max(scopes, key=list(RestartScope).index)


@dataclass(frozen=True, slots=True, order=True)
class Attempt:
    """Which run of a replica: retries of the job and restarts since. ``str()``: ``"1.2"``."""

    retry: int = 0
    restart: int = 0

    def __str__(self) -> str:
        return f"{self.retry}.{self.restart}"

    @classmethod
    def parse(cls, text: str) -> Attempt:
        """Return the attempt that ``str()`` wrote. :raises ValueError: it wrote something else."""
        retry, _, restart = text.partition(".")
        return cls(int(retry), int(restart))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """
    What was started again so far, of one job.

    :param retries: of the job as a whole.
    :param restarts: by task name, since the last retry.
    :param pending: task names whose newest run was decided and has not been started yet.
    """

    retries: int = 0
    restarts: Mapping[str, int] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()

    def of(self, replica: ReplicaId) -> Attempt:
        """Return the newest run of ``replica``."""
        return Attempt(self.retries, self.restarts.get(replica.task_name, 0))

    def may_restart(self, replica: ReplicaId) -> bool:
        """Whether ``replica`` has a restart left."""
        return self.of(replica).restart < MAX_REPLICA_RESTARTS

    @property
    def may_retry(self) -> bool:
        """Whether the job has a retry left."""
        return self.retries < MAX_JOB_RETRIES

    def restarted(self, replicas: Iterable[ReplicaId]) -> Attempts:
        """Return the attempts with one more restart of each of ``replicas``."""
        names = [replica.task_name for replica in replicas]
        counts = {**self.restarts, **{name: self.restarts.get(name, 0) + 1 for name in names}}
        return replace(self, restarts=counts, pending=self.pending | frozenset(names))

    def retried(self, replicas: Iterable[ReplicaId]) -> Attempts:
        """Return the attempts with one more retry of the job, whose replicas are ``replicas``."""
        names = frozenset(replica.task_name for replica in replicas)
        return Attempts(retries=self.retries + 1, pending=names)

    def started(self, replicas: Iterable[ReplicaId]) -> Attempts:
        """Return the attempts with ``replicas`` pending no more."""
        return replace(self, pending=self.pending - {replica.task_name for replica in replicas})

    def to_json(self) -> dict[str, Any]:
        """Return what ``from_json`` reads back."""
        return {
            "retries": self.retries,
            "restarts": dict(self.restarts),
            "pending": sorted(self.pending),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Attempts:
        """Return the attempts of ``to_json``; of an empty mapping, none."""
        return cls(
            retries=stored.get("retries", 0),
            restarts=dict(stored.get("restarts", {})),
            pending=frozenset(stored.get("pending", ())),
        )
