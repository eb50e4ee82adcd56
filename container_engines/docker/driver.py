"""
The only way from this project to a Docker Engine: its images, containers and networks.

The service's engine (``engine.py``), the preflight and the local test run all use this driver. So containers
are confined, watched and removed alike, and an engine's refusal means the same to all of them
(``error_table.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from ipaddress import ip_network
from typing import Any

import docker
from docker.errors import APIError, NotFound
from docker.types import Mount
from docker.utils import parse_repository_tag

from container_engines.base import METRIC_FOLDER, GivenSecrets, LogLine
from container_engines.confinement import (
    BRIDGE_NAME,
    DNS_OPTIONS,
    DROPPED_CAPABILITIES,
    IS_OPEN_INSIDE,
    MACHINE_NAME,
    PIDS_LIMIT,
    SECURITY_OPTIONS,
)
from container_engines.docker.archive import archive_of
from container_engines.docker.error_table import Asked
from container_engines.docker.errors import engine_errors, without_errors
from container_engines.docker.gpus import device_request
from container_engines.docker.kinds import DOCKER, EngineKind
from container_engines.docker.log_files import LOG_MEGABYTES
from container_engines.docker.logs import read_frames
from container_engines.docker.lost import was_half_started, was_lost
from training_api.errors import EngineBusy, EngineError
from training_api.job.machines import Resources
from training_api.states import ReplicaState

STATES = {
    "created": ReplicaState.CREATED,
    "exited": ReplicaState.EXITED,
    "dead": ReplicaState.EXITED,
    # Podman's words in its list; in its answer about one container they are Docker's.
    "initialized": ReplicaState.CREATED,
    "stopped": ReplicaState.EXITED,
}
#: The network of containers that name none.
DEFAULT_NETWORK = "bridge"
_SHOWN_ID = 12
#: The engine's answer to every start of a container after it was killed during the first start (the first
#: three), or after it forgot the container's network (all seen with 20.10).
_NEVER_STARTS = re.compile(
    r"task \w+: already exists|id already in use|start shim: mkdir \S+: file exists|attach to network \w+.*not found"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLaunch:
    """
    All that is needed to make one container.

    :param image: a name, or an id, of an image that the engine has.
    :param name: empty: the engine makes one up.
    :param command: replaces the image's entry point; empty: keep the image's.
    :param host_name: empty: the engine makes one up.
    :param network: the container joins it under its host name; empty: the engine's default network.
    :param dns: name servers; empty: the engine's.
    :param hosts: addresses by name, beside what name servers say.
    :param memory_bytes: limit, swap included; ``None``: no limit.
    :param cpus: limit in cores; ``None``: no limit.
    :param gpus: names of the GPUs that it gets.
    :param metric_folder: on the engine's machine; the container sees it as ``METRIC_FOLDER``; empty: none.
    :param disk_bytes: what its root may grow to; 0: no limit.
    :param runtime: the container runtime, as the engine names it; empty: the engine's default.
    :param log_megabytes: the engine keeps at most twice this much of its output.
    :param secrets: only the variables; ``put_files`` writes the files.
    """

    image: str
    name: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    host_name: str = ""
    network: str = ""
    dns: Sequence[str] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    cpus: float | None = None
    pids_limit: int = PIDS_LIMIT
    gpus: Sequence[str] = ()
    metric_folder: str = ""
    disk_bytes: int = 0
    runtime: str = ""
    log_megabytes: int = LOG_MEGABYTES
    secrets: GivenSecrets = field(default_factory=GivenSecrets)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """
    The state of a container.

    :param exit_code: set if and only if it has ended.
    :param lost: it died with the engine or its machine, and the exit code says nothing.
    """

    state: ReplicaState
    exit_code: int | None = None
    out_of_memory: bool = False
    lost: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its program has ended."""
        return self.state is ReplicaState.EXITED


@dataclass(frozen=True, slots=True)
class DockerDriver:
    """
    One engine; every method raises as ``engine_errors`` does.

    It has no locks, so a signal handler may use it.

    :param kind: which engine ``client`` speaks to.
    """

    client: docker.APIClient
    kind: EngineKind = DOCKER

    def info(self) -> dict[str, Any]:
        """Return what the engine reports about itself and its machine."""
        with engine_errors("ask for the machine's size"):
            found: dict[str, Any] = self.client.info()
        return found

    def find_image(self, name: str) -> dict[str, Any] | None:
        """Return the engine's description of an image, by name or id; ``None``: it has none."""
        with engine_errors(f"look for {name}"):
            try:
                image: dict[str, Any] = self.client.inspect_image(name)  # type: ignore[no-untyped-call]
            except NotFound:
                return None
        return image

    def pull(self, name: str, login: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """
        Pull the newest image ``name``; yields the messages of the pull to its end.

        :param login: for the registry: ``username`` and ``password``, or its token
            (``EngineKind.token_login``). Empty: anonymous.
        """
        return self._transfer(self.client.pull, f"pull {name}", name, login)

    def push(self, name: str, login: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """Push the image ``name`` to its registry; yields the messages as ``pull`` does."""
        return self._transfer(self.client.push, f"push {name}", name, login)

    @staticmethod
    def _transfer(
        start: Callable[..., Any], doing: str, name: str, login: Mapping[str, str]
    ) -> Iterator[Mapping[str, Any]]:
        repository, tag = parse_repository_tag(name)
        with engine_errors(doing, Asked.REGISTRY):
            # An empty login is anonymous. With None, docker-py would send the login of this host's user.
            stream = start(repository, tag=tag or "latest", stream=True, decode=True, auth_config=dict(login))
            yield from without_errors(stream, doing)

    def remove_image(self, name: str) -> bool:
        """Remove a name of an image, and the image with its last name; ``False``: it is in use."""
        with engine_errors(f"remove image {name}"):
            if self.client.containers(all=True, filters={"ancestor": name}):
                return False
            try:
                self.client.remove_image(name)
            except NotFound:
                return True
            except APIError as error:
                # A container was made from it just now.
                if error.status_code == HTTPStatus.CONFLICT:
                    return False
                raise
        return True

    def network_ids(self, *names: str) -> dict[str, str]:
        """Return the ids of those of these networks that there are, by name."""
        with engine_errors(f"look for network {' or '.join(names)}"):
            found = self.client.networks(names=list(names))
        # The engine matches parts of names.
        return {each["Name"]: each["Id"] for each in found if each["Name"] in names}

    def make_network(
        self, name: str, labels: Mapping[str, str], bridge: str = "", *, is_closed: bool = False
    ) -> None:
        """
        Make a network on this machine. Two can have the same name, so check first.

        :param bridge: the name of the machine's interface to it; empty: the engine makes one up.
        :param is_closed: its containers do not reach each other.
        """
        options = {BRIDGE_NAME: bridge} if bridge else {}
        if is_closed:
            options[IS_OPEN_INSIDE] = "false"
        with engine_errors(f"make network {name}"):
            self.client.create_network(name, driver="bridge", options=options or None, labels=dict(labels))

    def addresses_of(self, network: str) -> int:
        """Return how many IPv4 addresses a network has."""
        with engine_errors(f"look at network {network}"):
            found = self.client.inspect_network(network)
        subnets = (ip_network(config["Subnet"]) for config in found["IPAM"]["Config"])
        return sum(subnet.num_addresses for subnet in subnets if subnet.version == 4)

    def create(self, launch: ContainerLaunch) -> str:
        """
        Make a container with limits and without privileges; return its id.

        It reaches this machine as ``host.docker.internal``.

        :raises ImageNotFound: the engine has no such image.
        :raises EngineError: the launch names GPUs, and the engine grants none.
        """
        client, network = self.client, launch.network
        if launch.gpus and not self.kind.grants_gpus:
            raise EngineError(
                f"a container of {launch.image} must get the GPUs {', '.join(launch.gpus)}, but {self.kind.name} ignores "
                "such a request: run jobs with GPUs on a Docker Engine"
            )
        host_config = client.create_host_config(
            nano_cpus=round(launch.cpus * 1e9) if launch.cpus else None,
            mem_limit=launch.memory_bytes,
            # Memory and swap together. Otherwise the engine adds as much swap again, and a leak slows the
            # container down instead of ending it.
            memswap_limit=launch.memory_bytes,
            pids_limit=launch.pids_limit,
            security_opt=list(SECURITY_OPTIONS),
            cap_drop=list(DROPPED_CAPABILITIES),
            extra_hosts={**launch.hosts, **self._machine_of(network)},
            dns=list(launch.dns) or None,
            runtime=launch.runtime or None,
            init=True,  # so that SIGTERM reaches a trainer that is PID 1, and its children are reaped
            log_config=self.kind.log_files(launch.log_megabytes),
            network_mode=network or None,
            dns_opt=list(DNS_OPTIONS) if network else None,
            device_requests=[device_request(launch.gpus)] if launch.gpus else None,
            # A mount, not a bind: for a bind the engine makes a missing folder, which nothing reads.
            mounts=[Mount(METRIC_FOLDER, launch.metric_folder, type="bind")]
            if launch.metric_folder
            else None,
            storage_opt={"size": str(launch.disk_bytes)} if launch.disk_bytes else None,
        )
        endpoints = {network: client.create_endpoint_config(aliases=[launch.host_name])} if network else None
        inside = f" in the runtime {launch.runtime}" if launch.runtime else ""
        with engine_errors(f"make a container of {launch.image}{inside}"):
            made: dict[str, Any] = client.create_container(
                launch.image,
                name=launch.name or None,
                hostname=launch.host_name or None,
                entrypoint=list(launch.command) or None,
                command=list(launch.args) or None,
                environment={**launch.secrets.environment, **launch.environment},
                labels=dict(launch.labels),
                host_config=host_config,
                networking_config=client.create_networking_config(endpoints),  # type: ignore[arg-type]  # stubs: one endpoint
            )
        return str(made["Id"])

    def _machine_of(self, network: str) -> dict[str, str]:
        """Return the address of the engine's machine by its name."""
        if self.kind.knows_its_machine:
            return {MACHINE_NAME: "host-gateway"}
        with engine_errors(f"look at network {network or DEFAULT_NETWORK}"):
            found = self.client.inspect_network(network or DEFAULT_NETWORK)
        return {MACHINE_NAME: str(found["IPAM"]["Config"][0]["Gateway"])}

    def put_files(self, container: str, files: Mapping[str, bytes], folders: Collection[str] = ()) -> None:
        """
        Write files, and make empty folders, in a container before its start.

        Files that are there are replaced.

        They are in its own layer on the engine's disk, which goes with it. A mount needs the engine on this
        machine, and what is written into a tmpfs before the start is lost at the start.
        """
        if not files and not folders:
            return
        with engine_errors(f"give container {_short(container)} its files"):
            self.client.put_archive(container, "/", archive_of(files, folders))

    def start(self, container: str) -> None:
        """
        Start a container, even one that has ended; do nothing if it runs.

        :raises EngineBusy: it can never start and was removed; make it again.
        """
        with engine_errors(f"start container {_short(container)}"):
            try:
                # The engine answers 304 if it runs already; that is no error.
                self.client.start(container)
            except APIError as error:
                if not _NEVER_STARTS.search(str(error.explanation)):
                    raise
                self.remove(container)
                raise EngineBusy(
                    f"the engine can no longer start {_short(container)}, which is made again: {error.explanation}"
                ) from error

    def look_at(self, container: str) -> ContainerState | None:
        """Return the state of a container, by name or id; ``None``: there is none."""
        with engine_errors(f"look at container {_short(container)}"):
            try:
                answer: dict[str, Any] = self.client.inspect_container(container)
            except NotFound:
                return None
        described = answer["State"]
        state = STATES.get(described["Status"], ReplicaState.RUNNING)
        if was_half_started(described):
            state = ReplicaState.CREATED
        ended = state is ReplicaState.EXITED
        started_at, finished_at = (
            datetime.fromisoformat(described[key]) for key in ("StartedAt", "FinishedAt")
        )
        return ContainerState(
            state=state,
            exit_code=int(described["ExitCode"]) if ended else None,
            out_of_memory=ended and bool(described["OOMKilled"]),
            lost=was_lost(answer),
            # Nanoseconds are truncated to microseconds.
            started_at=None if state is ReplicaState.CREATED else started_at,
            # Podman takes the end from a file system, whose clock may be a hundredth of a second behind.
            finished_at=max(started_at, finished_at) if ended else None,
        )

    def containers(self, *labels: str, running_only: bool = False) -> list[dict[str, Any]]:
        """Return the engine's list of containers with these labels, ``KEY=VALUE`` or ``KEY``."""
        with engine_errors("list containers"):
            return list(self.client.containers(all=not running_only, filters={"label": list(labels)}))

    def networks(self, *labels: str) -> list[dict[str, Any]]:
        """Return the engine's list of networks with these labels."""
        with engine_errors("list networks"):
            return list(self.client.networks(filters={"label": list(labels)}))

    def read_logs(
        self, container: str, since_ns: int = 0, *, follow: bool = True, tail: int | None = None
    ) -> Iterator[LogLine]:
        """Yield the lines of a container as ``Engine.read_logs`` does; ``tail``: at most the last N."""
        with engine_errors(f"read the log of container {_short(container)}"):
            source, stamps = f"containers/{container}", self.kind.stamps()
            yield from read_frames(self.client, source, since_ns, follow=follow, tail=tail, stamps=stamps)

    def stop(self, container: str, grace_seconds: float) -> None:
        """Send SIGTERM, then SIGKILL after ``grace_seconds``; return once it has ended or is gone."""
        with engine_errors(f"stop container {_short(container)}"):
            try:
                self.client.stop(container, timeout=round(grace_seconds))
            except NotFound:
                return

    def kill(self, container: str) -> None:
        """Send SIGKILL. :raises EngineError: also if it has just ended."""
        with engine_errors(f"kill container {_short(container)}"):
            self.client.kill(container)

    def remove(self, container: str) -> None:
        """Remove a container with its volumes, even if it runs; no error if it is gone or going."""
        with engine_errors(f"remove container {_short(container)}"):
            _unless_gone(self.client.remove_container, container, v=True, force=True)

    def remove_all(self, *labels: str) -> None:
        """Remove every container, running or not, and then every network with these labels."""
        for item in self.containers(*labels):
            self.remove(item["Id"])
        for item in self.networks(*labels):
            with engine_errors(f"remove network {item['Name']}"):
                _unless_gone(self.client.remove_network, item["Id"])


def machine_of(info: Mapping[str, Any], gpus: int = 0) -> Resources:
    """Return what an engine's machine has, by the engine's ``info``. Pure."""
    return Resources(cpus=float(info["NCPU"]), memory_bytes=int(info["MemTotal"]), gpus=gpus)


def _unless_gone(do: Callable[..., Any], key: str, **options: Any) -> None:
    try:
        do(key, **options)
    except NotFound:
        return
    except APIError as error:
        # Another task, or a task's on_kill, is removing it.
        if error.status_code != HTTPStatus.CONFLICT:
            raise


def _short(container: str) -> str:
    """Return a name as it is, and only the start of an id."""
    return container[:_SHOWN_ID] if len(container) == 64 else container
