"""The Docker Engine, through docker-py's low-level client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from docker.errors import NotFound

from container_engines.base import (
    SECRET_FOLDER,
    Engine,
    EngineView,
    LogLine,
    ObservedReplica,
    PulledImage,
    ReplicaLaunch,
    Usage,
)
from container_engines.disk_use import DiskUse, use_of_folders
from container_engines.docker import watched_request
from container_engines.docker.client import DockerConnection, get
from container_engines.docker.disk import can_be_read, folders_of, has_no_quota, size_of
from container_engines.docker.driver import (
    STATES,
    ContainerLaunch,
    ContainerState,
    DockerDriver,
    machine_of,
)
from container_engines.docker.errors import engine_errors
from container_engines.docker.gpus import GPUS_LABEL, count_gpus, free_gpus, gpus_of
from container_engines.docker.job_networks import JobNetworks
from container_engines.docker.networks import networks_left
from container_engines.docker.packet_filter import PacketFilter
from container_engines.docker.stats import usage_of
from container_engines.egress import Egress
from container_engines.gpu_meter import GpuMeter
from container_engines.labels import (
    JOB_UID,
    SERVICE,
    attempt_of,
    replica_labels,
    replica_of,
)
from container_engines.pull_watch import PullWatch
from training_api.errors import EngineError, ImageNotFound
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.states import ReplicaState

_EVENTS = ["start", "die", "destroy"]
#: The engine lists a container as running a moment after its program has begun, which may have asked already.
_PAUSES_FOR_A_START = (0.1, 0.2, 0.4, 0.8)
#: A working engine answers within milliseconds; other requests wait in line meanwhile.
_STATS_SECONDS = 5
#: The engine walks through all that the container has written.
_SIZE_SECONDS = 20
_SETTLE_TIME = timedelta(seconds=2)


class DockerEngine(Engine):
    """
    One training service's view of a Docker Engine.

    :param service_id: marks this service's containers; it neither sees nor touches others.
    :param docker_host: ``unix://...`` or ``tcp://...``; empty: ``DOCKER_HOST`` or the default socket.
    :param gpus: how many GPUs the engine's host has; ``None``: detect them.
    :param egress: what containers may reach; ``None``: nothing is closed to them.
    """

    def __init__(
        self,
        service_id: str,
        docker_host: str = "",
        gpus: int | None = None,
        *,
        egress: Egress | None = None,
    ) -> None:
        self._service_id = service_id
        self._connection = DockerConnection(docker_host)
        packet_filter = PacketFilter(self._connection, service_id, egress) if egress else None
        self._networks = JobNetworks(service_id, packet_filter)
        self._addresses = packet_filter.addresses if packet_filter else None
        self._gpus = gpus
        self._gpu_meter = GpuMeter()
        self._has_quota = True
        self._has_limits = False
        self._gpus_of: dict[str, tuple[str, ...]] = {}
        self._inspected: dict[str, ObservedReplica] = {}
        self._gpu_lock = threading.Lock()

    @property
    def _driver(self) -> DockerDriver:
        return DockerDriver(self._connection.client, self._connection.kind)

    def close(self) -> None:
        self._connection.close()

    @property
    def can_read_metrics(self) -> bool:
        # A bind mount is on the engine's machine; an engine behind a socket file is on this one.
        return self._connection.is_local

    def ping(self) -> str:
        client = self._connection.client
        with engine_errors("ask for the version"):
            return str(client.version()["Version"])

    def hosts(self) -> Mapping[str, Resources]:
        info = self._driver.info()
        return {"": machine_of(info, count_gpus(info) if self._gpus is None else self._gpus)}

    def max_networks(self) -> int | None:
        driver = self._driver
        if not driver.kind.tells_pools:
            return None
        return networks_left(driver.info(), driver.networks(), self._service_id)

    def shares_network(self) -> bool:
        return self._networks.can_share(self._driver)

    def max_job_replicas(self) -> int | None:
        return self._connection.kind.most_replicas

    def confine(self) -> None:
        self._networks.confine(self._driver)

    def runtimes(self) -> frozenset[str] | None:
        return frozenset(self._driver.info().get("Runtimes") or ())

    def find_image(self, ref: ImageRef) -> PulledImage | None:
        found = self._driver.find_image(ref.pullable)
        if found is None:
            return None
        digests = dict(item.split("@", 1) for item in found.get("RepoDigests") or [])
        return PulledImage(
            image_id=found["Id"],
            digest=digests.get(ref.name, ref.digest or ""),
            size_bytes=int(found["Size"]),
        )

    def pull_image(self, ref: ImageRef, token: str = "", watch: PullWatch | None = None) -> PulledImage:
        watch = watch or PullWatch()
        if watch.cancelled:
            raise watch.error(f"pull {ref.pullable}")
        if ref.digest:
            present = self.find_image(ref)
            if present:
                return present
        driver = self._driver
        watched_request.pull(self._connection, ref.pullable, driver.kind.token_login(token), watch)
        pulled = self.find_image(ref)
        if pulled is None:
            raise ImageNotFound(f"pull {ref.pullable}: the engine does not have it after the pull")
        return pulled

    def remove_image(self, ref: ImageRef) -> bool:
        return self._driver.remove_image(ref.pullable)

    def start_replica(self, launch: ReplicaLaunch) -> None:
        if launch.metric_folder and not self.can_read_metrics:
            raise EngineError(
                "the metrics of a trial are read through a folder, which an engine on another machine cannot share: use "
                "an engine behind a unix:// socket"
            )
        driver = self._driver
        name = f"ct-{launch.job_uid}-{launch.replica.task_name}-{launch.attempt}"
        network = self._networks.ensure(driver, launch)
        found = driver.look_at(name)
        if found is not None and found.state is ReplicaState.CREATED:
            # Its start may have begun. After a second one Engine 20.10 writes each line of its log twice.
            driver.remove(name)
            found = None
        if found is None:
            self._create(launch, name, network)
            secrets = {f"{SECRET_FOLDER}/{file}": text for file, text in launch.secrets.files.items()}
            driver.put_files(name, {**secrets, **launch.files}, launch.folders)
        driver.start(name)

    def observe(self) -> EngineView:
        driver = self._driver
        # The network that jobs share, and the container that sets the rules, are no job's.
        containers, networks = driver.containers(self._own, JOB_UID), self._networks.of_jobs(driver)
        self._networks.count(containers)
        replicas = tuple(observed for item in containers if (observed := self._observe_one(item)) is not None)
        self._inspected = {each.container_id: each for each in replicas if _is_settled(each)}
        self._gpus_of = {item["Id"]: gpus for item in containers if (gpus := gpus_of(item["Labels"]))}
        uids = {item["Labels"][JOB_UID] for item in (*containers, *networks)}
        return EngineView(replicas=replicas, job_uids=frozenset(uids))

    def job_at(self, address: str) -> str | None:
        found = self._job_at(address)
        for pause in _PAUSES_FOR_A_START if address else ():
            if found is not None:
                break
            time.sleep(pause)
            found = self._job_at(address)
        return found

    def _job_at(self, address: str) -> str | None:
        for item in self._driver.containers(running_only=True):
            for network in item["NetworkSettings"]["Networks"].values():
                if address and network["IPAddress"] == address:
                    return str(item["Labels"].get(JOB_UID, ""))
        return None

    def stop_replica(self, container_id: str, grace_seconds: float) -> None:
        self._driver.stop(container_id, grace_seconds)

    def remove_job(self, job_uid: str) -> None:
        self._driver.remove_all(self._own, f"{JOB_UID}={job_uid}")

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        with self._connection.fresh() as client:
            driver = DockerDriver(client, self._connection.kind)
            yield from driver.read_logs(container_id, since_ns, follow=follow)

    def read_usage(self, container_id: str) -> Usage | None:
        client = self._connection.client
        with engine_errors(f"read what container {container_id[:12]} uses"):
            try:
                # one-shot: otherwise the engine takes two samples, a second apart.
                stats = get(
                    client,
                    f"/containers/{container_id}/stats",
                    params={"stream": "false", "one-shot": "true"},
                    timeout_seconds=_STATS_SECONDS,
                )
            except NotFound:
                return None
        usage = usage_of(stats)
        gpus = self._gpus_of.get(container_id)
        # The driver of this machine knows nothing of an engine elsewhere.
        use = self._gpu_meter.read(gpus) if usage and gpus and self._connection.is_local else None
        return replace(usage, gpus=use.gpus, gpu_memory_bytes=use.memory_bytes) if usage and use else usage

    def read_disk(self, container_id: str, most: DiskUse) -> DiskUse | None:
        client, path = self._connection.client, f"/containers/{container_id}/json"
        with engine_errors(f"look at the disk of container {container_id[:12]}"):
            try:
                found = get(client, path, params={}, timeout_seconds=_STATS_SECONDS)
                folders = folders_of(found) if self._connection.is_local else []
                if can_be_read(folders):
                    return use_of_folders(folders, most)
                return size_of(get(client, path, params={"size": "true"}, timeout_seconds=_SIZE_SECONDS))
            except NotFound:
                return None

    def events(self) -> Iterator[None]:
        # Here the service or the engine has just started: the first job need not wait for it. If it fails,
        # each start of a replica tries again, and says why.
        with suppress(EngineError):
            self.confine()
        client = self._connection.client
        with engine_errors("watch events"):
            filters = {"type": "container", "event": _EVENTS, "label": [self._own, JOB_UID]}
            with closing(client.events(filters=filters)) as events:
                for _ in events:
                    yield

    @property
    def _own(self) -> str:
        return f"{SERVICE}={self._service_id}"

    def _create(self, launch: ReplicaLaunch, name: str, network: str) -> None:
        container = ContainerLaunch(
            image=launch.image_id,
            name=name,
            command=launch.command,
            args=launch.args,
            environment=launch.environment,
            labels=replica_labels(self._service_id, launch),
            host_name=launch.host_name,
            network=network,
            dns=self._addresses.dns if self._addresses else (),
            hosts=self._addresses.hosts if self._addresses else {},
            memory_bytes=launch.resources.memory_bytes,
            cpus=launch.resources.cpus,
            pids_limit=launch.pids_limit,
            metric_folder=launch.metric_folder,
            secrets=launch.secrets,
            disk_bytes=launch.disk_bytes,
            runtime=launch.runtime,
        )
        if not launch.resources.gpus:
            self._make(container)
            return
        # One thread at a time, from reading which GPUs are free until the new container has its label.
        with self._gpu_lock:
            total = sum(host.gpus for host in self.hosts().values())
            gpus = free_gpus(launch.resources.gpus, total, self._driver.containers(GPUS_LABEL))
            labels = {**container.labels, GPUS_LABEL: ",".join(gpus)}
            self._make(replace(container, gpus=gpus, labels=labels))

    def _make(self, container: ContainerLaunch) -> None:
        """Make a container, with a quota for its root if the storage driver has quotas."""
        self._require_limits()
        if self._has_quota:
            try:
                self._driver.create(container)
                return
            except EngineError as error:
                if not has_no_quota(error):
                    raise
                self._has_quota = False
        self._driver.create(replace(container, disk_bytes=0))

    def _require_limits(self) -> None:
        """:raises EngineError: containers would run without limits."""
        missing = self._connection.kind.missing_limits
        if missing and not self._has_limits:
            if reason := missing(self._driver.info()):
                raise EngineError(reason)
            self._has_limits = True

    def _observe_one(self, item: dict[str, Any]) -> ObservedReplica | None:
        """
        Return the replica behind one row of the list; ``None`` if it went away meanwhile.

        The list lacks exit code, times and OOM, so they are asked for once per state. The engine answers for
        a container only once it has finished its current operation on it, and an ended trial would have to
        wait while others start.
        """
        labels = item["Labels"]
        listed = STATES.get(item["State"], ReplicaState.RUNNING)
        known = self._inspected.get(item["Id"])
        if known is not None and known.state is listed:
            return known
        if listed is ReplicaState.CREATED:
            found: ContainerState | None = ContainerState(state=listed)
        else:
            found = self._driver.look_at(item["Id"])
        if found is None:
            return None
        return ObservedReplica(
            job_uid=labels[JOB_UID],
            replica=replica_of(labels),
            attempt=attempt_of(labels),
            container_id=item["Id"],
            state=found.state,
            exit_code=found.exit_code,
            out_of_memory=found.out_of_memory,
            lost=found.lost,
            started_at=found.started_at,
            finished_at=found.finished_at,
        )


def _is_settled(observed: ObservedReplica) -> bool:
    """
    Whether this state will not change any more.

    That the memory was full may become known just after the end.
    """
    if observed.state is ReplicaState.EXITED and observed.finished_at:
        return datetime.now(UTC) - observed.finished_at > _SETTLE_TIME
    return observed.state is ReplicaState.RUNNING
