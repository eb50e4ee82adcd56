"""The Docker Engine, through docker-py's low-level client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import docker
from docker.errors import APIError, NotFound
from docker.types import Mount

from container_engines.base import (
    METRIC_FOLDER,
    Engine,
    EngineView,
    LogLine,
    ObservedReplica,
    PulledImage,
    ReplicaLaunch,
    Usage,
)
from container_engines.confinement import DNS_OPTIONS, DROPPED_CAPABILITIES, SECURITY_OPTIONS
from container_engines.docker.client import DockerConnection
from container_engines.docker.error_table import Asked
from container_engines.docker.errors import engine_errors, without_errors
from container_engines.docker.gpus import GPUS_LABEL, count_gpus, device_request, free_gpus, gpus_of
from container_engines.docker.logs import LOG_FILES, read_frames
from container_engines.docker.stats import usage_of
from container_engines.gpu_meter import GpuMeter
from container_engines.labels import (
    JOB_UID,
    SERVICE,
    attempt_of,
    job_labels,
    replica_labels,
    replica_of,
)
from training_api.errors import EngineError, ImageNotFound
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.states import ReplicaState

_STATES = {"created": ReplicaState.CREATED, "exited": ReplicaState.EXITED, "dead": ReplicaState.EXITED}
_EVENTS = ["start", "die", "destroy"]
_SETTLE_TIME = timedelta(seconds=2)


class DockerEngine(Engine):
    """
    One training service's view of a Docker Engine.

    :param service_id: marks this service's containers; others are neither seen nor touched.
    :param docker_host: ``unix://...`` or ``tcp://...``; empty: ``DOCKER_HOST`` or the default socket.
    :param gpus: how many GPUs the engine's host has; ``None``: found out, as far as the engine and this machine tell.
    """

    def __init__(self, service_id: str, docker_host: str = "", gpus: int | None = None) -> None:
        self._service_id = service_id
        self._connection = DockerConnection(docker_host)
        self._gpus = gpus
        self._gpu_meter = GpuMeter()
        self._gpus_of: dict[str, tuple[str, ...]] = {}
        self._inspected: dict[str, ObservedReplica] = {}
        self._network_lock = threading.Lock()
        self._gpu_lock = threading.Lock()

    @property
    def _client(self) -> docker.APIClient:
        return self._connection.client

    def close(self) -> None:
        self._connection.close()

    @property
    def can_read_metrics(self) -> bool:
        # A bind mount is of the engine's machine; an engine behind a socket file is on this one.
        return self._connection.is_local

    def ping(self) -> str:
        client = self._client
        with engine_errors("ask for the version"):
            return str(client.version()["Version"])

    def hosts(self) -> Sequence[Resources]:
        client = self._client
        with engine_errors("ask for the host's size"):
            info = client.info()
        gpus = count_gpus(info) if self._gpus is None else self._gpus
        return [Resources(cpus=float(info["NCPU"]), memory_bytes=int(info["MemTotal"]), gpus=gpus)]

    def find_image(self, ref: ImageRef) -> PulledImage | None:
        client = self._client
        with engine_errors(f"look for {ref.pullable}"):
            try:
                found = client.inspect_image(ref.pullable)  # type: ignore[no-untyped-call]
            except NotFound:
                return None
        digests = dict(item.split("@", 1) for item in found.get("RepoDigests") or [])
        return PulledImage(image_id=found["Id"], digest=digests.get(ref.name, ref.digest or ""))

    def pull_image(self, ref: ImageRef, token: str = "") -> PulledImage:
        client = self._client
        if ref.digest:
            present = self.find_image(ref)
            if present:
                return present
        with engine_errors(f"pull {ref.pullable}", Asked.REGISTRY):
            # auth_config={}: anonymous. None would send whatever login the host's user happens to have.
            auth = {"registrytoken": token} if token else {}
            stream = client.pull(
                ref.name, tag=ref.digest or ref.tag or "latest", stream=True, decode=True, auth_config=auth
            )
            for _ in without_errors(stream, f"pull {ref.pullable}"):
                pass
        pulled = self.find_image(ref)
        if pulled is None:
            raise ImageNotFound(f"pull {ref.pullable}: the engine does not have it after the pull")
        return pulled

    def start_replica(self, launch: ReplicaLaunch) -> None:
        if launch.metric_folder and not self.can_read_metrics:
            raise EngineError(
                "the metrics of a trial are read through a folder, which an engine on another machine cannot share: use "
                "an engine behind a unix:// socket"
            )
        client = self._client
        name = f"ct-{launch.job_uid}-{launch.replica.task_name}-{launch.attempt}"
        network = self._ensure_network(launch)
        with engine_errors(f"start {launch.replica.task_name}"):
            try:
                client.inspect_container(name)
            except NotFound:
                self._create(client, launch, name, network)
            # Starting what runs is answered with 304 and is no error.
            client.start(name)

    def observe(self) -> EngineView:
        client = self._client
        with engine_errors("list containers"):
            containers = client.containers(all=True, filters={"label": self._own})
            networks = client.networks(filters={"label": self._own})
            replicas = tuple(
                observed for item in containers if (observed := self._observe_one(client, item)) is not None
            )
        self._inspected = {each.container_id: each for each in replicas if _is_settled(each)}
        self._gpus_of = {item["Id"]: gpus for item in containers if (gpus := gpus_of(item["Labels"]))}
        uids = {item["Labels"][JOB_UID] for item in (*containers, *networks)}
        return EngineView(replicas=replicas, job_uids=frozenset(uids))

    def job_at(self, address: str) -> str | None:
        client = self._client
        with engine_errors("look for a container's address"):
            containers = client.containers(filters={"label": self._own})
        for item in containers:
            for network in item["NetworkSettings"]["Networks"].values():
                if address and network["IPAddress"] == address:
                    return str(item["Labels"][JOB_UID])
        return None

    def stop_replica(self, container_id: str, grace_seconds: float) -> None:
        client = self._client
        with engine_errors(f"stop container {container_id[:12]}"):
            try:
                client.stop(container_id, timeout=round(grace_seconds))
            except NotFound:
                return

    def remove_job(self, job_uid: str) -> None:
        client = self._client
        label = {"label": [*self._own, f"{JOB_UID}={job_uid}"]}
        with engine_errors(f"remove what job {job_uid} left"):
            for item in client.containers(all=True, filters=label):
                _ignore_missing(client.remove_container, item["Id"], v=True, force=True)
            for item in client.networks(filters=label):
                _ignore_missing(client.remove_network, item["Id"])

    def read_logs(self, container_id: str, since_ns: int, *, follow: bool = True) -> Iterator[LogLine]:
        client = self._client
        with engine_errors(f"read the log of container {container_id[:12]}"):
            yield from read_frames(client, f"containers/{container_id}", since_ns, follow=follow)

    def read_usage(self, container_id: str) -> Usage | None:
        client = self._client
        with engine_errors(f"read what container {container_id[:12]} uses"):
            try:
                # one_shot: otherwise the engine takes two looks, a second apart.
                stats = client.stats(container_id, stream=False, one_shot=True)
            except NotFound:
                return None
        usage = usage_of(stats)
        gpus = self._gpus_of.get(container_id)
        # The driver of this machine knows nothing of an engine elsewhere.
        use = self._gpu_meter.read(gpus) if usage and gpus and self._connection.is_local else None
        return replace(usage, gpus=use.gpus, gpu_memory_bytes=use.memory_bytes) if usage and use else usage

    def events(self) -> Iterator[None]:
        client = self._client
        with engine_errors("watch events"):
            filters = {"type": "container", "event": _EVENTS, "label": self._own}
            with closing(client.events(filters=filters)) as events:
                for _ in events:
                    yield

    @property
    def _own(self) -> list[str]:
        return [f"{SERVICE}={self._service_id}"]

    def _ensure_network(self, launch: ReplicaLaunch) -> str:
        """Make the job's own network unless it is there; two networks of one name are possible, so look first."""
        name = f"ct-{launch.job_uid}"
        client = self._client
        with self._network_lock, engine_errors(f"make the network of job {launch.job_id}"):
            if not client.networks(names=[name]):
                client.create_network(name, driver="bridge", labels=job_labels(self._service_id, launch))
        return name

    def _create(self, client: docker.APIClient, launch: ReplicaLaunch, name: str, network: str) -> None:
        if not launch.resources.gpus:
            client.create_container(**self._container(client, launch, name, network))
            return
        # From the look at what is free until the container carries what it took, nobody else may look.
        with self._gpu_lock:
            containers = client.containers(all=True, filters={"label": GPUS_LABEL})
            total = sum(host.gpus for host in self.hosts())
            gpus = free_gpus(launch.resources.gpus, total, containers)
            client.create_container(**self._container(client, launch, name, network, gpus))

    def _container(
        self,
        client: docker.APIClient,
        launch: ReplicaLaunch,
        name: str,
        network: str,
        gpus: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the arguments of ``create_container``: bounded, without privileges, alone with its job."""
        memory = launch.resources.memory_bytes
        host_config = client.create_host_config(
            nano_cpus=round(launch.resources.cpus * 1e9),
            mem_limit=memory,
            memswap_limit=memory,  # memory and swap together: no swap
            pids_limit=launch.pids_limit,
            security_opt=list(SECURITY_OPTIONS),
            cap_drop=list(DROPPED_CAPABILITIES),
            extra_hosts={"host.docker.internal": "host-gateway"},
            init=True,  # so that SIGTERM reaches a trainer that is PID 1, and its children are reaped
            log_config=LOG_FILES,
            network_mode=network,
            dns_opt=list(DNS_OPTIONS),
            device_requests=[device_request(gpus)] if gpus else None,
            # A mount, not a bind: the engine would make a folder that is missing, and nobody would read it.
            mounts=[Mount(METRIC_FOLDER, launch.metric_folder, type="bind")]
            if launch.metric_folder
            else None,
        )
        return {
            "name": name,
            "image": launch.image_id,
            "hostname": launch.host_name,
            "entrypoint": list(launch.command) or None,
            "command": list(launch.args) or None,
            "environment": dict(launch.environment),
            "labels": replica_labels(self._service_id, launch)
            | ({GPUS_LABEL: ",".join(gpus)} if gpus else {}),
            "host_config": host_config,
            "networking_config": client.create_networking_config(
                {network: client.create_endpoint_config(aliases=[launch.host_name])}  # type: ignore[arg-type]  # stubs: one endpoint
            ),
        }

    def _observe_one(self, client: docker.APIClient, item: dict[str, Any]) -> ObservedReplica | None:
        """
        Return the replica behind one row of the list; ``None`` if it went away meanwhile.

        The list lacks exit code, times and OOM. They are asked for once: the engine answers for a container only when it has
        done what it is doing with it, and an ended trial would wait for others to start.
        """
        labels = item["Labels"]
        listed = _STATES.get(item["State"], ReplicaState.RUNNING)
        known = self._inspected.get(item["Id"])
        if known is not None and known.state is listed:
            return known
        if listed is ReplicaState.CREATED:
            return ObservedReplica(
                job_uid=labels[JOB_UID],
                replica=replica_of(labels),
                attempt=attempt_of(labels),
                container_id=item["Id"],
                state=ReplicaState.CREATED,
            )
        try:
            state = client.inspect_container(item["Id"])["State"]
        except NotFound:
            return None
        status = _STATES.get(state["Status"], ReplicaState.RUNNING)
        exited = status is ReplicaState.EXITED
        return ObservedReplica(
            job_uid=labels[JOB_UID],
            replica=replica_of(labels),
            attempt=attempt_of(labels),
            container_id=item["Id"],
            state=status,
            exit_code=int(state["ExitCode"]) if exited else None,
            out_of_memory=exited and bool(state["OOMKilled"]),
            started_at=_moment(state["StartedAt"]) if status is not ReplicaState.CREATED else None,
            finished_at=_moment(state["FinishedAt"]) if exited else None,
        )


def _is_settled(observed: ObservedReplica) -> bool:
    """Whether nothing more will be learnt in this state; that the memory was full may come just after the end."""
    if observed.state is ReplicaState.EXITED and observed.finished_at:
        return datetime.now(UTC) - observed.finished_at > _SETTLE_TIME
    return observed.state is ReplicaState.RUNNING


def _ignore_missing(remove: Callable[..., Any], key: str, **options: Any) -> None:
    """Remove ``key``; that it is gone already, or is just being removed, is what was wanted."""
    try:
        remove(key, **options)
    except NotFound:
        return
    except APIError as error:
        if "already in progress" not in str(error.explanation):
            raise


def _moment(text: str) -> datetime:
    """Return an engine's timestamp; its nanoseconds are cut to microseconds."""
    return datetime.fromisoformat(text)
