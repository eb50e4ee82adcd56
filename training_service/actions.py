"""What the loop can do: each action of ``reconcile.py`` carried out on the store and the engine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property

from container_training.core.cluster import cluster_environment, replica_host
from container_training.core.errors import (
    DiskFull,
    EngineError,
    EngineUnavailable,
    ImageNotFound,
    RegistryUnavailable,
)
from container_training.core.image_ref import ImageRef
from container_training.core.job_spec import ReplicaSpec
from container_training.core.log_wire import Severity
from container_training.core.machines import GIB, Resources, fit, is_scaled_down, usable
from container_training.core.states import JobState
from training_service.clock import Clock, utc_now
from training_service.engine.base import Engine, ReplicaLaunch
from training_service.job_store import JobStore
from training_service.metrics import Metrics
from training_service.reconcile import Action, PullImage, RemoveJob, StartReplica, StopReplica, Transition
from training_service.records import JobRecord
from training_service.runtimes import RuntimeImage, get_runtime


class Actions:
    """
    Carries out actions; every one may be repeated. Safe for threads, one action a job at a time.

    :param container_env: variables that every container gets.
    :param pull_retry: how long an unreachable registry is asked again.
    :param runtimes: the images that runtime versions stand for.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        engine: Engine,
        metrics: Metrics,
        container_env: Mapping[str, str],
        stop_grace_seconds: float,
        pull_retry: timedelta,
        pids_limit: int,
        cpu_limit: float = 0,
        memory_limit_bytes: int = 0,
        runtimes: Mapping[str, RuntimeImage] | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._store = store
        self._engine = engine
        self._metrics = metrics
        self._container_env = dict(container_env)
        self._stop_grace_seconds = stop_grace_seconds
        self._pull_retry = pull_retry
        self._pids_limit = pids_limit
        self._cpu_limit = cpu_limit
        self._memory_limit_bytes = memory_limit_bytes
        self._runtimes = runtimes or {}
        #: Jobs that were told that their registry is silent, so that their log has one line about it.
        self._waiting_for_registry: set[str] = set()
        self._clock = clock

    def advance(self, transition: Transition) -> bool:
        """Write the transition; whether this call did it (``False``: somebody else moved the job first)."""
        job, to = transition.job, transition.to
        moved = self._store.advance(
            job,
            to,
            at=transition.at,
            message=_state_message(job, to, transition.error_message),
            error_message=transition.error_message,
        )
        if moved:
            self._metrics.transitions.labels(to.value).inc()
            seconds = (transition.at - job.entered_at).total_seconds()
            self._metrics.state_seconds.labels(job.state.value).observe(max(seconds, 0))
        return moved

    def perform(self, action: Action) -> None:
        """
        Carry out ``action``; blocks until it is done.

        :raises EngineError: it was not done and may be tried again; the job is as it was.
        """
        match action:
            case Transition():
                self.advance(action)
            case PullImage(job=job, image=image):
                self._pull(job, image)
            case StartReplica(job=job, replica=replica):
                self._start(job, replica)
            case StopReplica(observed=observed):
                self._engine.stop_replica(observed.container_id, self._stop_grace_seconds)
            case RemoveJob(job_uid=uid):
                self._engine.remove_job(uid)

    def _pull(self, job: JobRecord, image: ImageRef) -> None:
        try:
            runtime = get_runtime(self._engine, self._runtimes, image)
            pulled = runtime or self._engine.pull_image(image)
        except ImageNotFound as error:
            self._fail(job, f"The image {image} of the replica master 0 could not be pulled: {error}")
        except DiskFull as error:
            self._fail(job, f"There is no room for the image {image} of the replica master 0: {error}")
        except RegistryUnavailable as error:
            waited = self._clock() - job.entered_at
            if waited >= self._pull_retry:
                self._waiting_for_registry.discard(job.uid)
                self._fail(
                    job,
                    f"The image {image} could not be pulled for {waited.total_seconds():.0f} seconds: {error}",
                )
            else:
                if job.uid not in self._waiting_for_registry:
                    self._waiting_for_registry.add(job.uid)
                    limit = f"{self._pull_retry.total_seconds():g} seconds"
                    self._store.note(job, f"{error}; asking again for {limit}", Severity.WARNING)
                raise EngineUnavailable(str(error)) from error
        else:
            self._waiting_for_registry.discard(job.uid)
            self._store.record_image(job, pulled.image_id)
            what = f"{image}, {pulled.image_id}" if runtime else f"{image.name}@{pulled.digest}"
            self._store.note(job, f"Image of master-replica-0 is {what}.")

    def _start(self, job: JobRecord, replica: ReplicaSpec) -> None:
        granted = fit(replica.machine, self._available)
        if is_scaled_down(replica.machine, granted):
            self._store.note(job, _scaled_down(replica, granted), Severity.WARNING)
        try:
            self._engine.start_replica(self._launch(job, replica, granted))
        except EngineUnavailable:
            raise
        except ImageNotFound:
            # Somebody removed it after the pull: pull it again.
            self._store.record_image(job, "")
        except EngineError as error:
            self._fail(
                job, f"The replica {replica.replica.role} {replica.replica.index} could not start: {error}"
            )

    def _fail(self, job: JobRecord, message: str) -> None:
        self.advance(Transition(job=job, to=JobState.FAILED, at=self._clock(), error_message=message))

    def _launch(self, job: JobRecord, replica: ReplicaSpec, granted: Resources) -> ReplicaLaunch:
        spec = job.spec
        environment = {
            "GOOGLE_CLOUD_PROJECT": spec.project,
            **self._container_env,
            **cluster_environment(
                job_id=spec.job_id,
                replica=replica.replica,
                replicas=[other.replica for other in spec.replicas],
                job_parameters=spec.training_input.to_wire(),
                use_chief=spec.use_chief,
            ),
        }
        return ReplicaLaunch(
            job_uid=job.uid,
            job_id=spec.job_id,
            project=spec.project,
            replica=replica.replica,
            image_id=job.image_id,
            host_name=replica_host(spec.job_id, replica.replica),
            command=replica.command,
            args=replica.args,
            environment=environment,
            resources=granted,
            pids_limit=self._pids_limit,
        )

    @cached_property
    def _available(self) -> Resources:
        host = self._engine.host_resources()
        return usable(host, cpu_limit=self._cpu_limit, memory_limit_bytes=self._memory_limit_bytes)


def _state_message(job: JobRecord, to: JobState, error_message: str) -> str:
    job_id = job.spec.job_id
    texts = {
        JobState.PREPARING: f"Job {job_id} is being prepared: pulling {job.spec.master.image}.",
        JobState.RUNNING: f"Job {job_id} is running.",
        JobState.SUCCEEDED: "Job completed successfully.",
        JobState.FAILED: f"Job failed: {error_message}",
        JobState.CANCELLING: f"Job {job_id} is being cancelled: {error_message}",
        JobState.CANCELLED: "Job cancelled.",
    }
    return texts[to]


def _scaled_down(replica: ReplicaSpec, granted: Resources) -> str:
    machine = replica.machine
    return (
        f"{machine.name} has {machine.cpus} cores and {machine.memory_bytes / GIB:.1f} GiB; this machine gives "
        f"{replica.replica.task_name} {granted.cpus:g} cores and {granted.memory_bytes / GIB:.1f} GiB."
    )
