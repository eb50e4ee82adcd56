"""Runs a cluster of containers briefly on a Docker Engine and reports each one's outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from docker.api import APIClient

from container_engines.docker.driver import STATES, ContainerLaunch, ContainerState, DockerDriver
from container_training.work.images.engine import OWNER_LABEL, Cancellation, stoppable_answers
from container_training.work.images.puller import ensure_image
from container_training.work.images.registry import FindLogin
from container_training.work.preflight.container_run import last_drawn
from container_training.work.preflight.report import ReplicaOutcome, Stop
from training_api.errors import DiskFull, EngineBusy, EngineError, PreflightFailed
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.retrying import ENGINE_MAY_DO_LATER
from training_api.states import ReplicaState

#: Lines of each replica's output that are kept.
LOG_LINES = 200
#: The watch lasts at least this long after the master's success: an interpreter's imports take seconds.
MIN_SECONDS = 5.0
#: After the first failure, other replicas may still show theirs.
SETTLE_SECONDS = 2.0
#: A replica that ended well is started once more, and stopped in the middle of its work: after a third of its
#: first run's time, but at most this late.
MAX_SECOND_RUN_SECONDS = 5.0
_POLL_SECONDS = 0.1
_SIGKILL_CODE = 137
#: A flood of output must not fill the engine's disk.
_LOG_MEGABYTES = 8

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def run_cluster(
    api_client: APIClient,
    launches: Mapping[ReplicaId, ContainerLaunch],
    *,
    owner: str,
    watch_seconds: float,
    grace_seconds: float,
    find_login: FindLogin,
    on_line: Callable[[str], None],
    cancellation: Cancellation | None = None,
) -> list[ReplicaOutcome]:
    """
    Start all ``launches`` on one network, watch them, stop them; return each one's outcome.

    The watch ends when the master has ended well, when a replica has failed, or after ``watch_seconds``; in
    the first two cases the others get a few seconds more. Then every running replica gets SIGTERM, and
    SIGKILL ``grace_seconds`` later; a replica that had ended well is started once more for that. Everything
    is removed in every case. What an earlier run of the same ``owner`` left behind, because its process was
    killed, is removed first.
    :param launches: each with a host name; labels, network and log are set here.
    :param owner: who runs it, the same for every attempt; goes into a label.
    :param find_login: the login for a registry host, for images that the engine has to pull.
    :param on_line: called with the last lines of every replica's output, once they are known.
    :raises PreflightFailed: it was cancelled.
    :raises RegistryUnavailable: an image has to be pulled, and its registry does not answer.
    :raises EngineError: as ``engine_errors``.
    """
    run = _ClusterRun(DockerDriver(api_client), owner, cancellation or Cancellation())
    try:
        return run.outcomes(launches, watch_seconds, grace_seconds, find_login, on_line)
    except EngineError as error:
        if run.is_cancelled:  # the cancel removed what the error is about
            raise PreflightFailed("the preflight was cancelled") from error
        raise


class _ClusterRun:
    def __init__(self, driver: DockerDriver, owner: str, cancellation: Cancellation) -> None:
        self._driver = driver
        self._owner = owner
        self._own = f"{OWNER_LABEL}={owner}"
        self._cancellation = cancellation
        self._containers: dict[ReplicaId, str] = {}
        self._errors: dict[ReplicaId, str] = {}
        self._ends: dict[ReplicaId, ContainerState] = {}

    @property
    def is_cancelled(self) -> bool:
        return self._cancellation.is_cancelled

    def outcomes(
        self,
        launches: Mapping[ReplicaId, ContainerLaunch],
        watch_seconds: float,
        grace_seconds: float,
        find_login: FindLogin,
        on_line: Callable[[str], None],
    ) -> list[ReplicaOutcome]:
        self._remove_all()
        with stoppable_answers(self._driver.client, self._cancellation):
            self._pull_missing(launches, find_login, on_line)
        with self._cancellation.stops_with(self._remove_all), ThreadPoolExecutor(len(launches)) as pool:

            def each(do: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
                self._require_going_on()
                return list(pool.map(do, items))

            try:
                self._require_going_on()
                network = f"preflight-{self._owner}"
                self._driver.make_network(network, {OWNER_LABEL: self._owner})
                each(
                    lambda item: self._start(item[0], replace(item[1], network=network)),
                    [
                        (replica, launch)
                        for replica, launch in launches.items()
                        if replica not in self._errors
                    ],
                )
                self._watch(watch_seconds)
                found = each(lambda item: self._outcome(*item), list(launches.items()))
                for outcome in found:
                    for line in outcome.tail:
                        on_line(f"{outcome.replica.task_name} | {line}")
                self._start_again(found)
                stops = each(lambda outcome: self._stop(outcome, grace_seconds), found)
                self._require_going_on()
            finally:
                list(pool.map(self._driver.remove, self._containers.values()))
                self._remove_all()
        return [replace(outcome, stop=stop) for outcome, stop in zip(found, stops, strict=True)]

    def _require_going_on(self) -> None:
        if self.is_cancelled:
            raise PreflightFailed("the preflight was cancelled")

    def _remove_all(self) -> None:
        self._driver.remove_all(self._own)

    def _pull_missing(
        self,
        launches: Mapping[ReplicaId, ContainerLaunch],
        find_login: FindLogin,
        on_line: Callable[[str], None],
    ) -> None:
        """Pull missing images; a failed pull is an error of the replicas that need the image."""
        for image in sorted({launch.image for launch in launches.values()}):
            try:
                ensure_image(self._driver.client, image, find_login, on_line)
            except EngineError as error:
                if _is_not_about_the_job(error):
                    raise
                why = f"image {image} is not on the engine and cannot be pulled: {error}"
                self._errors |= {
                    replica: why for replica, launch in launches.items() if launch.image == image
                }

    def _start(self, replica: ReplicaId, launch: ContainerLaunch) -> None:
        """Create and start one container; a refusal that is about it becomes its own error."""
        labels = {OWNER_LABEL: self._owner}
        try:
            container = self._driver.create(replace(launch, labels=labels, log_megabytes=_LOG_MEGABYTES))
            self._containers[replica] = container
            self._driver.start(container)
        except EngineError as error:
            if self.is_cancelled or _is_not_about_the_job(error):
                raise
            self._errors[replica] = f"it could not be started: {error}"

    def _watch(self, seconds: float) -> None:
        """Return once there is nothing more to see."""
        started = time.monotonic()
        deadline = started + seconds
        failed_at: float | None = started if self._errors else None
        while len(self._ends) < len(self._containers) - len(self._errors.keys() & self._containers.keys()):
            self._require_going_on()
            self._collect_ends()
            now = time.monotonic()
            if failed_at is None and any(end.exit_code for end in self._ends.values()):
                failed_at = now
            has_settled = failed_at is not None and now >= failed_at + SETTLE_SECONDS
            master = next(
                (end for replica, end in self._ends.items() if replica.role is ReplicaRole.MASTER), None
            )
            is_done = master is not None and now >= started + MIN_SECONDS
            if now >= deadline or has_settled or is_done:
                return
            time.sleep(_POLL_SECONDS)

    def _collect_ends(self) -> None:
        ended = {
            row["Id"]
            for row in self._driver.containers(self._own)
            if STATES.get(row["State"]) is ReplicaState.EXITED
        }
        for replica, container in self._containers.items():
            if container in ended and replica not in self._ends and replica not in self._errors:
                self._ends[replica] = self._look_at(container)

    def _look_at(self, container: str) -> ContainerState:
        """:raises EngineBusy: it was removed."""
        state = self._driver.look_at(container)
        if state is None:
            raise EngineBusy(f"container {container[:12]} was removed from outside")
        return state

    def _outcome(self, replica: ReplicaId, launch: ContainerLaunch) -> ReplicaOutcome:
        """Return what is known of a replica at the end of the watch."""
        error = self._errors.get(replica)
        if error:
            return ReplicaOutcome(replica=replica, hostname=launch.host_name, start_error=error)
        container = self._containers[replica]
        state = self._look_at(container)
        now = datetime.now(UTC)
        ran = (state.finished_at or now) - (state.started_at or now)
        return ReplicaOutcome(
            replica=replica,
            hostname=launch.host_name,
            exit_code=state.exit_code,
            out_of_memory=state.out_of_memory,
            ran_seconds=max(ran.total_seconds(), 0.0),
            ended_at=state.finished_at,
            memory_bytes=launch.memory_bytes,
            environment=launch.environment,
            tail=tuple(
                last_drawn(line.text)
                for line in self._driver.read_logs(container, follow=False, tail=LOG_LINES)
            ),
        )

    def _start_again(self, outcomes: Sequence[ReplicaOutcome]) -> None:
        """Start those that ended well once more; return in the middle of the shortest one's work."""
        again = [outcome for outcome in outcomes if outcome.exit_code == 0]
        for outcome in again:
            self._driver.start(self._containers[outcome.replica])
        if again:
            midst = min(outcome.ran_seconds for outcome in again) / 3
            self._sleep(min(midst, MAX_SECOND_RUN_SECONDS))

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._require_going_on()
            time.sleep(min(left, _POLL_SECONDS))

    def _stop(self, outcome: ReplicaOutcome, grace_seconds: float) -> Stop | None:
        """Ask a replica to end, as the service does; ``None``: it does not run."""
        if outcome.has_failed:
            return None
        container = self._containers[outcome.replica]
        if self._look_at(container).state is not ReplicaState.RUNNING:
            return None
        asked = time.monotonic()
        self._driver.stop(container, grace_seconds)
        seconds = time.monotonic() - asked
        exit_code = self._look_at(container).exit_code
        return Stop(seconds=seconds, killed=exit_code == _SIGKILL_CODE and seconds >= round(grace_seconds))


def _is_not_about_the_job(error: EngineError) -> bool:
    """Whether the engine is at fault, and not the request."""
    return isinstance(error, (*ENGINE_MAY_DO_LATER, DiskFull))
