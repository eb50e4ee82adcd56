"""
What the service asks of a container engine, and nothing more.

Three implementations: ``docker/`` (one machine; Docker or Podman), ``swarm/`` (several) and ``memory/``. One
contract suite (``tests/contract``) runs on all of them. Every method may be repeated: it is no error to start
what runs, to stop what has stopped, or to remove what is gone. All methods are safe to call from
several threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from container_engines.disk_use import DiskUse
from container_engines.pull_watch import PullWatch
from training_api.errors import EngineUnavailable
from training_api.job.cluster import ReplicaId
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.job.restarts import Attempt
from training_api.states import ReplicaState

#: Where a container finds the folder that it shares with the service, and the file of its metrics in it.
#: Neither the image nor the trainer has anything at this path, and no ``/tmp`` of a trainer hides it.
METRIC_FOLDER = "/run/container-training"
METRIC_FILE_NAME = "output.metrics"
METRIC_FILE = f"{METRIC_FOLDER}/{METRIC_FILE_NAME}"
#: Where a container finds the files of its secrets, each under the secret's name.
SECRET_FOLDER = "/run/secrets"  # noqa: S105  # a folder
#: All of a container may read its files: it may run as any user.
FILE_MODE = 0o444
#: Everybody may write to it, and remove what is theirs, as in ``/tmp``.
OPEN_FOLDER_MODE = 0o1777


class LogStream(StrEnum):
    """Which of a container's two outputs a line came from."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """
    One line of a container's output.

    :param timestamp_ns: nanoseconds since the epoch.
    :param text: without the line end.
    :param is_whole: ``False`` for what had no line end when the reading ended: the rest may still come.
    """

    timestamp_ns: int
    stream: LogStream
    text: str
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledImage:
    """
    An image that is on the engine.

    :param image_id: the engine's id.
    :param digest: the registry's digest.
    :param size_bytes: ``None``: the engine keeps its images elsewhere.
    """

    image_id: str
    digest: str
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSecrets:
    """
    Secrets with their values; no representation shows these.

    :param files: name of a file in ``SECRET_FOLDER`` -> content.
    :param environment: variable -> value.
    """

    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class StillStarting(EngineUnavailable):
    """The replica's machine is still preparing it. Another call continues the same start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLaunch:
    """
    All that is needed to start one replica.

    :param job_uid: the service's key of the job; names and labels of everything made for it derive from it.
    :param attempt: which run of the replica this is; each run has its own container.
    :param trial_id: the trial of a tuning job that it belongs to; empty: none.
    :param host_name: what the other replicas resolve it by; the same in every attempt.
    :param is_alone: whether its job has no other replica.
    :param command: replaces the image's entry point; empty: keep the image's.
    :param metric_folder: absolute path of a folder on the container's machine. The container sees it as
        ``METRIC_FOLDER`` and may write to it. Empty: none.
    :param secrets: what the container has from its first instruction on; ``environment`` goes before theirs.
    :param files: absolute path -> content of what it has beside its image, from its first instruction on. All
        may read them. At most 500 kB each, which is what a swarm takes.
    :param folders: absolute paths of empty folders to which everybody in it may write.
    :param disk_bytes: what its root may grow to, where the engine can limit it; 0: no limit.
    :param runtime: the container runtime, by the engine's name for it; empty: the engine's default.
    :param machine: which of the engine's ``hosts`` it runs on; empty: any.
    :param reserved: what that machine keeps for it, where the engine reserves anything; ``None``: nothing.
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
    is_alone: bool = False
    trial_id: str = ""
    metric_folder: str = ""
    secrets: GivenSecrets = field(default_factory=GivenSecrets)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    folders: tuple[str, ...] = ()
    disk_bytes: int = 0
    runtime: str = ""
    machine: str = ""
    reserved: Resources | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReplica:
    """
    One container as the engine reports it.

    :param exit_code: set if and only if the state is EXITED.
    :param lost: the engine or its machine ended it, and the exit code says nothing.
    :param machine: which of the engine's ``hosts`` it is on; empty: none yet, or there is only one.
    """

    job_uid: str
    replica: ReplicaId
    attempt: Attempt = field(default_factory=Attempt)
    container_id: str
    state: ReplicaState
    machine: str = ""
    exit_code: int | None = None
    out_of_memory: bool = False
    lost: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def __post_init__(self) -> None:
        if (self.exit_code is not None) != (self.state is ReplicaState.EXITED):
            raise ValueError(f"a replica that is {self.state} cannot have exit code {self.exit_code}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """
    What a running container uses: core seconds since its start, and bytes now.

    :param memory_bytes: without the kernel's caches of files, which it can drop.
    :param gpus: GPUs that were busy just now, each by its share of the time; ``None``: no GPU, or unknown.
    :param gpu_memory_bytes: in use on all of its GPUs together; ``None`` as above.
    :param age_seconds: how long ago this was so.
    """

    cpu_seconds: float
    memory_bytes: int
    gpus: float | None = None
    gpu_memory_bytes: int | None = None
    age_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineView:
    """
    What is on the engine now.

    :param replicas: containers of this service, in any state.
    :param job_uids: jobs that have anything left on the engine: containers or networks.
    """

    replicas: tuple[ObservedReplica, ...] = ()
    job_uids: frozenset[str] = field(default_factory=frozenset)


class Engine(ABC):
    """
    A container engine as one training service sees it: with its own containers only.

    Every method raises ``EngineUnavailable`` when the engine does not answer, ``EngineBusy`` when it refuses
    what it may accept later, and another ``EngineError`` when it refuses for good.
    """

    def close(self) -> None:  # noqa: B027  # not every engine has connections
        """Close the connections to the engine. May be called twice; a later use opens new ones."""

    @property
    @abstractmethod
    def can_read_metrics(self) -> bool:
        """
        Whether what containers write to a folder is read on their machine.

        By this service, which then runs on that machine, or by the machine's agent.
        """

    @abstractmethod
    def ping(self) -> str:
        """Return the engine's version."""

    @abstractmethod
    def hosts(self) -> Mapping[str, Resources]:
        """
        Return what each machine that can start containers now has, by its id.

        There is at least one; the id of an only machine is empty. A container runs on one of them, and those
        of a job may be spread over several.
        """

    def max_networks(self) -> int | None:
        """
        Return how many job networks there can be, including those that exist; at least 1.

        :return: ``None``: the engine does not run out of them.
        """
        return None

    def shares_network(self) -> bool:
        """Whether replicas that are alone in their jobs share one network."""
        return False

    def max_job_replicas(self) -> int | None:
        """
        Return how many containers one job's network has addresses for.

        :return: ``None``: more than any job has.
        """
        return None

    def confine(self) -> None:  # noqa: B027  # not every engine can
        """
        Put what guards all containers together in place, or in place again.

        That is what limits them, and the agents of their machines.

        :raises EngineError: it cannot be done, and no replica can be started.
        """

    def runtimes(self) -> frozenset[str] | None:
        """Return the names of its container runtimes; ``None``: a launch cannot choose one."""
        return None

    @abstractmethod
    def find_image(self, ref: ImageRef) -> PulledImage | None:
        """Return ``ref`` if the engine has it, without asking a registry; ``None`` otherwise."""

    @abstractmethod
    def pull_image(self, ref: ImageRef, token: str = "", watch: PullWatch | None = None) -> PulledImage:
        """
        Make ``ref`` present and return it; blocks. A present digest is not pulled again.

        :param token: bearer token for the registry; empty: the pull is anonymous.
        :param watch: cancels this pull and its work on the engine. Another pull of the same image continues.
            ``None``: the default limits apply, and the pull cannot be cancelled.

        :raises PullAbandoned: the owner of ``watch`` gave the pull up.
        :raises ImageNotFound: the registry does not have it, or refuses to give it.
        :raises DiskFull: the engine's disk is full.
        :raises RegistryUnavailable: the registry did not answer in time; a retry may work.
        """

    def remove_image(self, ref: ImageRef) -> bool:
        """
        Remove the name ``ref``, and with its last name the image.

        :return: ``False``: the image stays, because a container uses it or the engine keeps images elsewhere.
        """
        return False

    @abstractmethod
    def start_replica(self, launch: ReplicaLaunch) -> None:
        """
        Make the job's network and the replica's container, and start it.

        :raises ImageNotFound: the image has left the engine.
        :raises StillStarting: it takes a while, e.g. as another machine pulls the image; ask again later.
        :raises EngineError: the container cannot be started, e.g. its command does not exist, or the launch
            has a ``metric_folder`` and the engine is not one that ``can_read_metrics``.
        """

    @abstractmethod
    def observe(self) -> EngineView:
        """Return what is on the engine now."""

    @abstractmethod
    def job_at(self, address: str) -> str | None:
        """
        Return the uid of the job whose running container has ``address`` on its network.

        The job may be another service's.

        :return: empty: that container is no job's, or the engine cannot tell its containers by address;
            ``None``: no running container has this address.
        """

    def job_on(self, machine: str, container_id: str) -> str | None:
        """
        Return the uid of this service's job of which a container runs on one of several machines.

        :param machine: which of ``hosts``.
        :param container_id: as the engine of that machine has it.
        :return: ``None``: no replica of a job is known to run there in this container; it may have been
            started a moment ago.
        """
        return None

    @abstractmethod
    def stop_replica(self, container_id: str, grace_seconds: float) -> None:
        """
        Send SIGTERM, then SIGKILL after ``grace_seconds``; returns when the container has ended.

        An engine that fixes the grace period when a container starts keeps that one.
        """

    @abstractmethod
    def remove_job(self, job_uid: str) -> None:
        """Remove the job's containers (killing what runs), anonymous volumes and network."""

    @abstractmethod
    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        """
        Yield the container's lines from ``since_ns`` on.

        :param follow: continue until it ends. A follower may miss lines of a flood; a read without ``follow``
            returns all that the engine has kept.

        May yield lines a little older than ``since_ns``: callers drop duplicates.
        Ends early if the engine does.
        """

    @abstractmethod
    def read_usage(self, container_id: str) -> Usage | None:
        """Return what a container uses; ``None``: it does not run, or the engine cannot tell."""

    def read_disk(self, container_id: str, most: DiskUse) -> DiskUse | None:
        """
        Return what a container has written to its root.

        Counting may end once ``most`` is exceeded.

        :return: ``None``: there is no such container, or the engine cannot tell.
        """
        return None

    @abstractmethod
    def events(self) -> Iterator[None]:
        """
        Yield whenever a container of this service starts or ends; blocks in between.

        Ends if the engine does. An event is only a hint to poll now: events may be missed, so nothing may
        depend on them.
        """
