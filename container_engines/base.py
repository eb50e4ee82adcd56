"""
What the service asks of a container engine, and nothing more.

Three implementations: ``docker/`` (one machine), ``swarm/`` (several) and ``memory/``. One
contract suite (``tests/contract``) runs on all. Every method may be repeated: starting what runs, stopping what has stopped and removing what is gone are no
errors. All methods are safe to call from several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from training_api.job.cluster import ReplicaId
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt
from training_api.states import ReplicaState

#: Where a container finds the folder that it shares with the service, and in it the file of its metrics. Neither the
#: image nor the trainer has anything at this path, and a ``/tmp`` of the trainer's own does not hide it.
METRIC_FOLDER = "/run/container-training"
METRIC_FILE_NAME = "output.metrics"
METRIC_FILE = f"{METRIC_FOLDER}/{METRIC_FILE_NAME}"


class LogStream(StrEnum):
    """Which of a container's two outputs a line came from."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """
    One line of a container: nanoseconds since the epoch, its stream, its text without the line end.

    :param is_whole: ``False`` for what had no line end when the reading ended: the rest may still come.
    """

    timestamp_ns: int
    stream: LogStream
    text: str
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledImage:
    """An image that is on the engine: the engine's own id, and the registry's digest of it."""

    image_id: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLaunch:
    """
    All that is needed to start one replica.

    :param job_uid: the service's own key of the job; names and labels of everything made for it derive from it.
    :param attempt: which run of the replica this is; each has a container of its own.
    :param trial_id: of which trial of a tuning job; empty: of none.
    :param host_name: what the other replicas resolve it by; the same in every attempt.
    :param command: replaces the image's entry point; empty: the image's own.
    :param metric_folder: absolute path of the service's machine that the container sees, and may write to, as
        ``METRIC_FOLDER``; empty: none.
    """

    job_uid: str
    job_id: str
    project: str
    replica: ReplicaId
    attempt: Attempt
    image_id: str
    host_name: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    environment: Mapping[str, str]
    resources: Resources
    pids_limit: int
    trial_id: str = ""
    metric_folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReplica:
    """
    One container as the engine reports it.

    :param exit_code: set if and only if the state is EXITED.
    """

    job_uid: str
    replica: ReplicaId
    attempt: Attempt = field(default_factory=Attempt)
    container_id: str
    state: ReplicaState
    exit_code: int | None = None
    out_of_memory: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def __post_init__(self) -> None:
        if (self.exit_code is not None) != (self.state is ReplicaState.EXITED):
            raise ValueError(f"a replica that is {self.state} cannot have exit code {self.exit_code}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """
    What a running container has used: core seconds since its start, and the bytes of now.

    :param memory_bytes: without what the kernel keeps of files and can drop.
    :param gpus: GPUs that were busy just now, each by the share of the time; ``None``: it has none, or nobody can tell.
    :param gpu_memory_bytes: in use on all of its GPUs together; ``None`` as above.
    """

    cpu_seconds: float
    memory_bytes: int
    gpus: float | None = None
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """
    What is there now.

    :param replicas: containers of this service, in any state.
    :param job_uids: jobs that have anything left on the engine: containers or networks.
    """

    replicas: tuple[ObservedReplica, ...] = ()
    job_uids: frozenset[str] = field(default_factory=frozenset)


class Engine(ABC):
    """
    A container engine as seen by one training service (``service_id``): it sees only its own containers.

    Every method raises ``EngineUnavailable`` when the engine does not answer, ``EngineBusy`` when it refuses what it may do
    later, and another ``EngineError`` when it refuses for good.
    """

    def close(self) -> None:  # noqa: B027  # not every engine has connections
        """Close the connections to the engine; may be called twice, and the engine may still be used."""

    @property
    @abstractmethod
    def can_read_metrics(self) -> bool:
        """Whether containers run on the service's own machine, so that both can share a ``metric_folder``."""

    @abstractmethod
    def ping(self) -> str:
        """Return the engine's version."""

    @abstractmethod
    def hosts(self) -> Sequence[Resources]:
        """
        Return the cores and the memory of each machine that containers can be started on now; at least one.

        A container is on one of them, a job's containers may be on several.
        """

    @abstractmethod
    def find_image(self, ref: ImageRef) -> PulledImage | None:
        """Return ``ref`` if the engine has it, without asking a registry; ``None`` otherwise."""

    @abstractmethod
    def pull_image(self, ref: ImageRef, token: str = "") -> PulledImage:
        """
        Make ``ref`` present and return it; blocks. A reference by digest that is present is not pulled again.

        :param token: bearer token for the registry; empty: the pull is anonymous.

        :raises ImageNotFound: the registry does not have it, or does not give it.
        :raises DiskFull: no room for it.
        :raises RegistryUnavailable: the registry did not answer; may work later.
        """

    @abstractmethod
    def start_replica(self, launch: ReplicaLaunch) -> None:
        """
        Make the job's network and the replica's container, and start it.

        :raises ImageNotFound: the image has left the engine.
        :raises EngineError: the container cannot be started, e.g. its command does not exist, or it should have a
            ``metric_folder`` and the engine is not one that ``can_read_metrics``.
        """

    @abstractmethod
    def observe(self) -> EngineView:
        """Return what is there now."""

    @abstractmethod
    def job_at(self, address: str) -> str | None:
        """
        Return the uid of the job whose running container has ``address`` on its network.

        :return: ``None``: no such one, or an engine whose containers cannot be told by their address.
        """

    @abstractmethod
    def stop_replica(self, container_id: str, grace_seconds: float) -> None:
        """
        Send SIGTERM, then SIGKILL after ``grace_seconds``; returns when the container has ended.

        An engine that fixes the grace period at the start of a container keeps to that one.
        """

    @abstractmethod
    def remove_job(self, job_uid: str) -> None:
        """Remove the job's containers (killing what runs), anonymous volumes and network."""

    @abstractmethod
    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        """
        Yield the container's lines from ``since_ns`` on.

        :param follow: go on until it ends. A follower may miss lines of a flood; what is read without it is all that
            the engine has kept.

        May yield lines a little older than ``since_ns``: callers drop what they have. Ends early if the engine does.
        """

    @abstractmethod
    def read_usage(self, container_id: str) -> Usage | None:
        """Return what a running container has used; ``None``: it does not run, or the engine cannot tell."""

    @abstractmethod
    def events(self) -> Iterator[None]:
        """
        Yield whenever a container of this service starts or ends; blocks in between, ends if the engine does.

        Only a hint to look now: an event may be missed, so nothing may depend on it.
        """
