"""Run a whole cluster of containers for a short while on a Docker Engine, and see how each of them does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import docker.errors
from docker.api import APIClient
from docker.types import LogConfig

from container_engines.confinement import DNS_OPTIONS
from container_engines.docker.errors import engine_errors
from container_training.work.images.engine import (
    OWNER_LABEL,
    Cancellation,
    find_image,
    stoppable_answers,
)
from container_training.work.images.puller import pull_image
from container_training.work.images.registry import FindLogin
from container_training.work.preflight.containers import (
    host_config,
    remove_container,
    remove_leftovers,
)
from container_training.work.preflight.line_splitter import LineSplitter
from container_training.work.preflight.report import ReplicaOutcome, Stop
from training_api.errors import (
    DiskFull,
    EngineError,
    PreflightFailed,
)
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.retrying import ENGINE_MAY_DO_LATER

#: Lines of each replica's output that are kept.
LOG_LINES = 200
#: A replica whose master has ended well is watched for at least this long: an interpreter's imports take seconds.
MIN_SECONDS = 5.0
#: After the first failure the others may still show theirs.
SETTLE_SECONDS = 2.0
#: A replica that ended well is started once more, to be asked to end in the midst of its work: after a third of the time that
#: it took before, and this late at most.
MAX_SECOND_RUN_SECONDS = 5.0
_POLL_SECONDS = 0.1
_ENDED = ("exited", "dead")
_SIGKILL_CODE = 137
#: A flood of output must not fill the engine's disk.
_LOG = LogConfig(type=LogConfig.types.JSON, config={"max-size": "8m", "max-file": "2"})

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLaunch:
    """
    One container of the cluster.

    :param command: replaces the image's entry point; empty: the image's own.
    :param hostname: its name, under which the others reach it.
    :param memory_bytes: limit, swap included; None is none.
    :param cpus: limit in cores; None is none.
    """

    replica: ReplicaId
    image: str
    command: Sequence[str]
    args: Sequence[str]
    environment: Mapping[str, str]
    hostname: str
    memory_bytes: int | None = None
    cpus: float | None = None


def run_cluster(
    api_client: APIClient,
    launches: Sequence[ReplicaLaunch],
    *,
    owner: str,
    watch_seconds: float,
    grace_seconds: float,
    find_login: FindLogin,
    on_line: Callable[[str], None],
    cancellation: Cancellation | None = None,
) -> list[ReplicaOutcome]:
    """
    Start all ``launches`` side by side on a network of their own, watch them, end them; return what became of each.

    The watch is over once the master has ended well, once a replica has failed, and after ``watch_seconds`` in any case;
    the first two leave the others a few seconds more. Then every replica that runs gets SIGTERM, and SIGKILL
    ``grace_seconds`` later; one that had ended well is started once more for that. All of it is removed in every case;
    what an earlier run of the same ``owner`` left behind (its process was killed) is removed first.

    :param owner: who runs it, the same for every attempt; goes into a label.
    :param find_login: the login for a registry host, for images that the engine has to pull.
    :param on_line: called with the last lines of every replica's output, once they are known.
    :raises PreflightFailed: it was cancelled.
    :raises RegistryUnavailable: an image has to be pulled, and its registry does not answer.
    :raises DiskFull: the engine has no room for an image or a container.
    :raises EngineUnavailable: the engine does not answer.
    """
    run = _ClusterRun(api_client, owner, cancellation or Cancellation())
    try:
        with engine_errors("run the replicas"):
            return run.outcomes(launches, watch_seconds, grace_seconds, find_login, on_line)
    except EngineError as error:
        if run.is_cancelled:  # which removed what the error is about
            raise PreflightFailed("the preflight was cancelled") from error
        raise


class _ClusterRun:
    def __init__(self, api_client: APIClient, owner: str, cancellation: Cancellation) -> None:
        self._api_client = api_client
        self._owner = owner
        self._cancellation = cancellation
        self._containers: dict[ReplicaId, str] = {}
        self._errors: dict[ReplicaId, str] = {}
        self._ends: dict[ReplicaId, dict[str, Any]] = {}

    @property
    def is_cancelled(self) -> bool:
        return self._cancellation.is_cancelled

    def outcomes(
        self,
        launches: Sequence[ReplicaLaunch],
        watch_seconds: float,
        grace_seconds: float,
        find_login: FindLogin,
        on_line: Callable[[str], None],
    ) -> list[ReplicaOutcome]:
        remove_leftovers(self._api_client, self._owner)
        with stoppable_answers(self._api_client, self._cancellation):
            self._pull_missing({launch.image for launch in launches}, launches, find_login, on_line)
        with self._cancellation.stops_with(self._remove_all), ThreadPoolExecutor(len(launches)) as pool:

            def each(do: Callable[..., _Result], items: Sequence[Any]) -> list[_Result]:
                self._require_going_on()
                return list(pool.map(do, items))

            try:
                self._require_going_on()
                self._network = self._make_network()
                each(self._start, [launch for launch in launches if launch.replica not in self._errors])
                self._watch(watch_seconds)
                found = each(self._outcome, launches)
                for outcome in found:
                    for line in outcome.tail:
                        on_line(f"{outcome.replica.task_name} | {line}")
                self._start_again(found)
                stops = each(lambda outcome: self._stop(outcome, grace_seconds), found)
                self._require_going_on()
            finally:
                list(pool.map(lambda c: remove_container(self._api_client, c), self._containers.values()))
                self._remove_all()
        return [replace(outcome, stop=stop) for outcome, stop in zip(found, stops, strict=True)]

    def _require_going_on(self) -> None:
        if self.is_cancelled:
            raise PreflightFailed("the preflight was cancelled")

    def _remove_all(self) -> None:
        remove_leftovers(self._api_client, self._owner)

    def _pull_missing(
        self,
        images: set[str],
        launches: Sequence[ReplicaLaunch],
        find_login: FindLogin,
        on_line: Callable[[str], None],
    ) -> None:
        """Pull what the engine lacks; what cannot be pulled is an error of the replicas that need it."""
        for image in sorted(images):
            if find_image(self._api_client, image) is not None:
                continue
            on_line(f"pulling {image}")
            try:
                pull_image(self._api_client, image, find_login)
            except EngineError as error:
                if isinstance(error, (*ENGINE_MAY_DO_LATER, DiskFull)):
                    raise
                why = f"image {image} is not on the engine and cannot be pulled: {error}"
                self._errors |= {launch.replica: why for launch in launches if launch.image == image}

    def _make_network(self) -> str:
        name = f"preflight-{self._owner}"
        self._api_client.create_network(name, driver="bridge", labels={OWNER_LABEL: self._owner})
        return name

    def _start(self, launch: ReplicaLaunch) -> None:
        """Create and start one container; a refusal that is about it, like a missing entry point, is its own error."""
        client = self._api_client
        endpoint = client.create_endpoint_config(aliases=[launch.hostname])
        try:
            container: str = client.create_container(
                launch.image,
                entrypoint=list(launch.command) or None,
                command=list(launch.args) or None,
                hostname=launch.hostname,
                environment=dict(launch.environment),
                labels={OWNER_LABEL: self._owner},
                host_config=host_config(
                    client,
                    memory_bytes=launch.memory_bytes,
                    cpus=launch.cpus,
                    network_mode=self._network,
                    dns_opt=list(DNS_OPTIONS),
                    log_config=_LOG,
                ),
                networking_config=client.create_networking_config({self._network: endpoint}),  # type: ignore[arg-type]  # stubs: one endpoint
            )["Id"]
            self._containers[launch.replica] = container
            client.start(container)
        except docker.errors.APIError as error:
            if not error.is_client_error() or self.is_cancelled:
                raise
            self._errors[launch.replica] = f"it could not be started: {error.explanation}"

    def _watch(self, seconds: float) -> None:
        """Return once there is nothing more to see."""
        started = time.monotonic()
        deadline = started + seconds
        failed_at: float | None = started if self._errors else None
        while len(self._ends) < len(self._containers) - len(self._errors.keys() & self._containers.keys()):
            self._require_going_on()
            self._collect_ends()
            now = time.monotonic()
            if failed_at is None and any(state["ExitCode"] for state in self._ends.values()):
                failed_at = now
            has_settled = failed_at is not None and now >= failed_at + SETTLE_SECONDS
            master = next(
                (state for replica, state in self._ends.items() if replica.role is ReplicaRole.MASTER), None
            )
            is_done = master is not None and now >= started + MIN_SECONDS
            if now >= deadline or has_settled or is_done:
                return
            time.sleep(_POLL_SECONDS)

    def _collect_ends(self) -> None:
        ended = {
            row["Id"]
            for row in self._api_client.containers(
                all=True, filters={"label": f"{OWNER_LABEL}={self._owner}"}
            )
            if row["State"] in _ENDED
        }
        for replica, container in self._containers.items():
            if container in ended and replica not in self._ends and replica not in self._errors:
                self._ends[replica] = self._api_client.inspect_container(container)["State"]

    def _outcome(self, launch: ReplicaLaunch) -> ReplicaOutcome:
        """Return what is known of a replica when the watch is over."""
        error = self._errors.get(launch.replica)
        if error:
            return ReplicaOutcome(replica=launch.replica, hostname=launch.hostname, start_error=error)
        container = self._containers[launch.replica]
        described: dict[str, Any] = self._api_client.inspect_container(container)
        state = described["State"]
        has_ended = state["Status"] in _ENDED
        started = datetime.fromisoformat(state["StartedAt"])
        ended = datetime.fromisoformat(state["FinishedAt"]) if has_ended else None
        until = ended or datetime.now(started.tzinfo)
        return ReplicaOutcome(
            replica=launch.replica,
            hostname=described["Config"]["Hostname"],
            exit_code=int(state["ExitCode"]) if has_ended else None,
            out_of_memory=has_ended and bool(state["OOMKilled"]),
            ran_seconds=max((until - started).total_seconds(), 0.0),
            ended_at=ended,
            memory_bytes=launch.memory_bytes,
            environment=dict(
                entry.split("=", 1) for entry in described["Config"]["Env"] or [] if "=" in entry
            ),
            tail=self._tail(container),
        )

    def _tail(self, container: str) -> tuple[str, ...]:
        splitter = LineSplitter()
        output: bytes = self._api_client.logs(container, stdout=True, stderr=True, tail=LOG_LINES)
        return (*splitter.feed(output), *splitter.finish())

    def _start_again(self, outcomes: Sequence[ReplicaOutcome]) -> None:
        """Start those that ended well once more, and return in the midst of the shortest one's work."""
        again = [outcome for outcome in outcomes if outcome.exit_code == 0]
        for outcome in again:
            self._api_client.start(self._containers[outcome.replica])
        if again:
            midst = min(outcome.ran_seconds for outcome in again) / 3
            self._sleep(min(midst, MAX_SECOND_RUN_SECONDS))

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._require_going_on()
            time.sleep(min(left, _POLL_SECONDS))

    def _stop(self, outcome: ReplicaOutcome, grace_seconds: float) -> Stop | None:
        """Ask a replica to end, as the service does; None: it does not run."""
        if outcome.has_failed:
            return None
        client, container = self._api_client, self._containers[outcome.replica]
        if not client.inspect_container(container)["State"]["Running"]:
            return None
        asked = time.monotonic()
        client.stop(container, timeout=round(grace_seconds))
        seconds = time.monotonic() - asked
        exit_code = client.inspect_container(container)["State"]["ExitCode"]
        return Stop(seconds=seconds, killed=exit_code == _SIGKILL_CODE and seconds >= round(grace_seconds))
