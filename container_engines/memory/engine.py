"""
An engine in memory, for tests and simulations.

Its clock is virtual: time passes only when ``advance`` is called.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from container_engines.base import (
    Engine,
    EngineView,
    LogLine,
    LogStream,
    ObservedReplica,
    PulledImage,
    ReplicaLaunch,
    Usage,
)
from container_engines.disk_use import DiskUse
from container_engines.memory.scripted_reports import ScriptedReport, due_reports, write_metric_file
from container_engines.pull_watch import PullWatch
from training_api.errors import (
    EngineBusy,
    EngineError,
    EngineUnavailable,
    ImageNotFound,
    RegistryUnavailable,
)
from training_api.job.cluster import ReplicaId
from training_api.job.image_ref import ImageRef
from training_api.job.machines import GIB, Resources
from training_api.job.restarts import MAX_REPLICA_RESTARTS
from training_api.job.tuning.measurement import Report
from training_api.states import ReplicaState

_START = datetime(2026, 1, 1, tzinfo=UTC)
_KILLED = 137
_NOTHING = DiskUse(bytes=0, files=0)
#: The size of each image.
IMAGE_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """
    What containers of an image do.

    :param run_seconds: virtual seconds until they end by themselves.
    :param spread_seconds: they run up to this much longer, depending on the job's uid.
    :param ignores_sigterm: they end only after the grace period, with 137.
    :param reports: the metrics that each reports; a stop, or the end, cuts them short.
    :param disk: what each writes to its root.
    :param report: the same as a function of the launch, so that a simulation can compute them.
    :param failures: how many runs of a replica end with ``exit_code`` before one ends with 0; ``None``: all.
    """

    run_seconds: float = 1.0
    spread_seconds: float = 0.0
    exit_code: int = 0
    cpu_cores: float = 0.5
    memory_bytes: int = 2**20
    out_of_memory: bool = False
    disk: DiskUse = _NOTHING
    lines: tuple[str, ...] = ()
    ignores_sigterm: bool = False
    start_error: str = ""
    failures: int | None = None
    reports: tuple[ScriptedReport, ...] = ()
    report: Callable[[ReplicaLaunch], Iterable[ScriptedReport]] | None = None


@dataclass(slots=True)
class _Container:
    launch: ReplicaLaunch
    behaviour: Behaviour
    observed: ObservedReplica
    lines: list[LogLine] = field(default_factory=list)
    reports: tuple[ScriptedReport, ...] = ()
    written: int = 0
    #: Set when its log has no more lines: the container has ended, or the engine was switched off.
    silence: threading.Event = field(default_factory=threading.Event)


class MemoryEngine(Engine):
    """
    Has the images given to ``add_image``; containers run as their image's ``Behaviour`` says.

    :param networks: how many job networks it can have; ``None``: any number.
    :param shares_network: whether replicas that are alone in their jobs share one network.
    """

    def __init__(
        self, host: Resources | None = None, networks: int | None = None, *, shares_network: bool = False
    ) -> None:
        self.now = _START
        self.registry_available = True
        #: Hosts that accept a pull and never answer it.
        self.hanging_registries: set[str] = set()
        #: The errors that pulls, starts and removals raise, if any.
        self.pull_error: EngineError | None = None
        self.start_error: EngineError | None = None
        self.remove_error: EngineError | None = None
        #: The token of each pull.
        self.tokens: list[str] = []
        #: Of running containers that are no job's.
        self.addresses_of_others: set[str] = set()
        #: The machines that are there, by id; a test may add and remove some.
        self.machines = {"": host or Resources(cpus=2.0, memory_bytes=8 * GIB)}
        self._images: dict[str, Behaviour] = {}
        #: Images that the registry has and the engine does not.
        self._absent: set[str] = set()
        self._containers: dict[str, _Container] = {}
        self._networks: set[str] = set()
        self._max_networks = networks
        self._shares_network = shares_network
        self._lock = threading.RLock()
        self._event = threading.Event()
        self._available = True

    @property
    def available(self) -> bool:
        """Whether it answers; switching it off wakes those who follow a log."""
        return self._available

    @available.setter
    def available(self, value: bool) -> None:
        with self._lock:
            self._available = value
            for container in self._containers.values() if not value else ():
                container.silence.set()
                if container.observed.state is ReplicaState.RUNNING:
                    container.silence = threading.Event()

    def clock(self) -> datetime:
        """Return the virtual time; pass this method as a ``Clock``."""
        return self.now

    def add_image(self, ref: ImageRef, behaviour: Behaviour) -> None:
        """Put an image into the registry."""
        self._images[ref.pullable] = behaviour

    def forget_image(self, ref: ImageRef) -> None:
        """Remove an image from the registry and the engine."""
        del self._images[ref.pullable]

    def advance(self, seconds: float) -> None:
        """Let virtual time pass; containers that are due end."""
        with self._lock:
            self.now += timedelta(seconds=seconds)
            for container in self._containers.values():
                started = container.observed.started_at
                end = started and started + self._run_time(container)
                if container.observed.state is ReplicaState.RUNNING and end and end <= self.now:
                    self._end(container, self._exit_code(container), end)
                self._write_reports(container)

    def lose(self, job_uid: str, replica: ReplicaId | None = None) -> None:
        """Remove a job's containers, or those of one replica, as if by another hand."""
        with self._lock:
            kept = dict[str, _Container]()
            for key, container in self._containers.items():
                if container.launch.job_uid == job_uid and replica in (None, container.launch.replica):
                    container.silence.set()
                else:
                    kept[key] = container
            self._containers = kept

    def end(self, job_uid: str, replica: ReplicaId, exit_code: int) -> None:
        """End a running replica now, with ``exit_code``, as if it had been killed."""
        with self._lock:
            for container in self._containers.values():
                observed = container.observed
                is_meant = (observed.job_uid, observed.replica) == (job_uid, replica)
                if is_meant and observed.state is ReplicaState.RUNNING:
                    self._end(container, exit_code, self.now)

    def crash(self) -> None:
        """Crash and start again with the machine: containers that ran are found dead."""
        with self._lock:
            for container in self._containers.values():
                if container.observed.state is ReplicaState.RUNNING:
                    self._end(container, 255, self.now)
                    container.observed = replace(container.observed, lost=True, out_of_memory=False)

    def launches(self) -> list[ReplicaLaunch]:
        """Return the launches of the present containers."""
        with self._lock:
            return [container.launch for container in self._containers.values()]

    def reports(self, container_id: str) -> list[Report]:
        """Return what the container has reported so far."""
        with self._lock:
            container = self._containers.get(container_id)
            return self._due(container) if container else []

    @property
    def can_read_metrics(self) -> bool:
        return True

    def ping(self) -> str:
        self._answer()
        return "memory"

    def hosts(self) -> Mapping[str, Resources]:
        self._answer()
        return dict(self.machines)

    def max_networks(self) -> int | None:
        self._answer()
        return self._max_networks

    def shares_network(self) -> bool:
        return self._shares_network

    def find_image(self, ref: ImageRef) -> PulledImage | None:
        self._answer()
        return self._image(ref) if self._has(ref) else None

    def pull_image(self, ref: ImageRef, token: str = "", watch: PullWatch | None = None) -> PulledImage:
        self._answer()
        self.tokens.append(token)
        if watch and watch.cancelled:
            raise watch.error(f"pull {ref.pullable}")
        if ref.host in self.hanging_registries:
            self._hang(ref, watch or PullWatch())
        if not self.registry_available:
            raise RegistryUnavailable(f"the registry {ref.host} did not answer")
        if self.pull_error:
            raise self.pull_error
        if ref.pullable not in self._images:
            raise ImageNotFound("manifest unknown")
        self._absent.discard(ref.pullable)
        return self._image(ref)

    def remove_image(self, ref: ImageRef) -> bool:
        with self._lock:
            self._answer()
            if any(container.launch.image_id == ref.pullable for container in self._containers.values()):
                return False
            self._absent.add(ref.pullable)
            return True

    def _has(self, ref: ImageRef) -> bool:
        return ref.pullable in self._images and ref.pullable not in self._absent

    @staticmethod
    def _hang(ref: ImageRef, watch: PullWatch) -> NoReturn:
        given_up = threading.Event()
        with watch.waiting(given_up.set):
            given_up.wait(watch.seconds_left)
        raise watch.error(f"pull {ref.pullable}")

    @staticmethod
    def _image(ref: ImageRef) -> PulledImage:
        digest = ref.digest or "sha256:" + "0" * 64
        return PulledImage(image_id=ref.pullable, digest=digest, size_bytes=IMAGE_BYTES)

    def start_replica(self, launch: ReplicaLaunch) -> None:
        with self._lock:
            self._answer()
            if self.start_error:
                raise self.start_error
            if launch.image_id not in self._images or launch.image_id in self._absent:
                raise ImageNotFound(f"no such image: {launch.image_id}")
            if not (launch.is_alone and self._shares_network):
                self._take_network(launch.job_uid)
            key = f"{launch.job_uid}-{launch.replica.task_name}-{launch.attempt}"
            if key in self._containers and self._containers[key].observed.state is not ReplicaState.CREATED:
                return
            behaviour = self._images[launch.image_id]
            if behaviour.start_error:
                raise EngineError(behaviour.start_error)
            observed = ObservedReplica(
                job_uid=launch.job_uid,
                replica=launch.replica,
                attempt=launch.attempt,
                container_id=key,
                state=ReplicaState.RUNNING,
                started_at=self.now,
                machine=launch.machine,
            )
            started_ns = int(self.now.timestamp() * 1e9)
            lines = [
                LogLine(timestamp_ns=started_ns + place, stream=LogStream.STDOUT, text=text)
                for place, text in enumerate(behaviour.lines)
            ]
            self._containers[key] = _Container(
                launch=launch,
                behaviour=behaviour,
                observed=observed,
                lines=lines,
                reports=(*behaviour.reports, *(behaviour.report(launch) if behaviour.report else ())),
            )
            self._write_reports(self._containers[key])
            self._event.set()

    def _take_network(self, job_uid: str) -> None:
        if self._max_networks is not None and len(self._networks - {job_uid}) >= self._max_networks:
            raise EngineBusy(
                f"make network ct-{job_uid}: all predefined address pools have been fully subnetted"
            )
        self._networks.add(job_uid)

    def observe(self) -> EngineView:
        with self._lock:
            self._answer()
            replicas = tuple(container.observed for container in self._containers.values())
            return EngineView(
                replicas=replicas, job_uids=frozenset({r.job_uid for r in replicas} | self._networks)
            )

    def job_at(self, address: str) -> str | None:
        with self._lock:
            self._answer()
            running = [
                container.launch.job_uid
                for container in self._containers.values()
                if container.observed.state is ReplicaState.RUNNING
            ]
            # In the order of their start: addresses of loopback, so that a test can take the place of one.
            jobs = {f"127.1.0.{place}": uid for place, uid in enumerate(running, 1)}
            return jobs.get(address, "" if address in self.addresses_of_others else None)

    def stop_replica(self, container_id: str, grace_seconds: float) -> None:
        with self._lock:
            self._answer()
            container = self._containers.get(container_id)
            if container is None or container.observed.state is not ReplicaState.RUNNING:
                return
            if container.behaviour.ignores_sigterm:
                self.now += timedelta(seconds=grace_seconds)
                self._end(container, _KILLED, self.now)
            else:
                self._end(container, 143, self.now)

    def remove_job(self, job_uid: str) -> None:
        with self._lock:
            self._answer()
            if self.remove_error:
                raise self.remove_error
            self.lose(job_uid)
            self._networks.discard(job_uid)

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        self._answer()
        container = self._containers.get(container_id)
        if container is None:
            raise EngineError(f"no such container: {container_id}")
        with self._lock:
            silence, runs = container.silence, container.observed.state is ReplicaState.RUNNING
        yield from (line for line in container.lines if line.timestamp_ns >= since_ns)
        if follow and runs:
            silence.wait()
            self._answer()

    def read_usage(self, container_id: str) -> Usage | None:
        self._answer()
        container = self._containers.get(container_id)
        if container is None or container.observed.state is not ReplicaState.RUNNING:
            return None
        ran = self.now - (container.observed.started_at or self.now)
        behaviour = container.behaviour
        return Usage(
            cpu_seconds=ran.total_seconds() * behaviour.cpu_cores, memory_bytes=behaviour.memory_bytes
        )

    def read_disk(self, container_id: str, most: DiskUse) -> DiskUse | None:
        self._answer()
        container = self._containers.get(container_id)
        return container.behaviour.disk if container else None

    def events(self) -> Iterator[None]:
        while self.available:
            self._event.wait()
            self._event.clear()
            yield

    def _answer(self) -> None:
        if not self.available:
            raise EngineUnavailable("the memory engine was switched off")

    @staticmethod
    def _run_time(container: _Container) -> timedelta:
        behaviour = container.behaviour
        share = zlib.crc32(container.launch.job_uid.encode()) / 2**32
        return timedelta(seconds=behaviour.run_seconds + share * behaviour.spread_seconds)

    def _due(self, container: _Container) -> list[Report]:
        observed = container.observed
        if observed.started_at is None:
            return []
        return due_reports(container.reports, observed.started_at, observed.finished_at or self.now)

    def _write_reports(self, container: _Container) -> None:
        """Write the file as the trainer would, one report after the other."""
        # Skip containers whose reports are all written: there may be a thousand of them.
        if container.launch.metric_folder and container.written < len(container.reports):
            due = self._due(container)
            for count in range(container.written + 1, len(due) + 1):
                write_metric_file(container.launch.metric_folder, due[:count])
            container.written = len(due)

    def _exit_code(self, container: _Container) -> int:
        behaviour, attempt = container.behaviour, container.launch.attempt
        if behaviour.failures is None:
            return behaviour.exit_code
        runs = attempt.retry * (MAX_REPLICA_RESTARTS + 1) + attempt.restart
        return behaviour.exit_code if runs < behaviour.failures else 0

    def _end(self, container: _Container, exit_code: int, at: datetime) -> None:
        container.observed = replace(
            container.observed,
            state=ReplicaState.EXITED,
            exit_code=exit_code,
            out_of_memory=container.behaviour.out_of_memory,
            finished_at=at,
        )
        container.silence.set()
        self._event.set()
