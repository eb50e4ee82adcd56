"""What the loop can do: each action of ``reconcile.py`` carried out on the store and the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol, TypeVar

from container_engines.base import METRIC_FILE, Engine, ObservedReplica, PulledImage, ReplicaLaunch
from training_api.dialects.ml_v1.log_wire import Severity
from training_api.errors import (
    DiskFull,
    EngineBusy,
    EngineError,
    EngineUnavailable,
    ImageNotFound,
    RegistryUnavailable,
)
from training_api.job.capacity import Capacity, grants
from training_api.job.cluster import ReplicaId, cluster_environment, replica_host
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.job.replica_spec import ReplicaSpec
from training_api.job.tuning.study_spec import StudySpec
from training_api.job.tuning.trial_spec import trial_environment
from training_api.retrying import ENGINE_MAY_DO_LATER
from training_api.states import JobState
from training_service.access.image_access import AnyImage, ImageAccess
from training_service.loop.refusals import Refusals
from training_service.model.clock import Clock, utc_now
from training_service.model.job_messages import (
    early_stopping_payload,
    images_message,
    scaled_down_messages,
    state_message,
    without_gpus_message,
)
from training_service.model.reasons import Reason
from training_service.model.records import JobRecord
from training_service.model.runtimes import RuntimeImage, get_runtime
from training_service.model.work import (
    AddTrial,
    Conclude,
    Decision,
    PullImages,
    RecordAttempts,
    RemoveJob,
    StartReplicas,
    StopEarly,
    StopReplicas,
    Transition,
    Work,
)
from training_service.store.job_store import JobStore
from training_service.studies.trial_planner import TrialPlanner
from training_service.telemetry.metrics import Metrics

#: Containers of one job that are started or stopped side by side; the engine itself works them off a few at a time.
_SIDE_BY_SIDE = 32


class PullRecorder(Protocol):
    """What actions need of a timeline."""

    def pulled(self, record: JobRecord, image: str, pinned: str, started_at: datetime) -> None:
        """Record that ``image`` is present, as ``pinned``, after a pull that began at ``started_at``."""


class _NoTimeline:
    def pulled(self, record: JobRecord, image: str, pinned: str, started_at: datetime) -> None:
        pass


class MetricFolders(Protocol):
    """What actions need of what reads metrics."""

    def prepare(self, record: JobRecord, replica: ReplicaId) -> str:
        """Make the folder of a replica that is about to start and return its path; empty: it reports nothing."""

    def remove(self, job_uid: str) -> None:
        """Remove a job's folders."""


_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Actions:
    """
    Carries out actions; every one may be repeated. Safe for threads, one action a job at a time.

    :param trials: adds trials to tuning jobs.
    :param capacity: the room of the machine; raises ``EngineUnavailable`` while nobody knows it.
    :param container_env: variables that every container gets.
    :param retry_for: how long to retry while a registry does not answer, or the engine refuses for now.
    :param runtimes: the images that runtime versions stand for.
    :param metric_folders: where trials report their metrics; default: nowhere.
    :param timeline: told what pulls took and gave; default: nobody is.
    :param image_access: asked before each pull; default: every image may be pulled.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        engine: Engine,
        metrics: Metrics,
        trials: TrialPlanner,
        capacity: Callable[[], Capacity],
        container_env: Mapping[str, str],
        stop_grace_seconds: float,
        retry_for: timedelta,
        pids_limit: int,
        runtimes: Mapping[str, RuntimeImage] | None = None,
        image_access: ImageAccess | None = None,
        metric_folders: MetricFolders | None = None,
        timeline: PullRecorder | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._store = store
        self._image_access = image_access or AnyImage()
        self._metric_folders = metric_folders
        self._timeline = timeline or _NoTimeline()
        self._engine = engine
        self._metrics = metrics
        self._trials = trials
        self._capacity = capacity
        self._container_env = dict(container_env)
        self._stop_grace_seconds = stop_grace_seconds
        self._retry_for = retry_for
        self._pids_limit = pids_limit
        self._runtimes = runtimes or {}
        self._refusals = Refusals()
        self._clock = clock

    def advance(self, transition: Transition) -> bool:
        """Write the transition; whether this call did it (``False``: somebody else moved the job first)."""
        job, to = transition.job, transition.to
        moved = self._store.advance(
            job,
            to,
            at=transition.at,
            message=state_message(job, to, transition.reason),
            reason=transition.reason,
        )
        if moved:
            self._metrics.count_transition(job, to, transition.at, transition.reason)
        if to.is_terminal:
            self._refusals.forget(job.uid, PullImages, StartReplicas)
        return moved

    def decide(self, action: Decision) -> bool:
        """Write a decision; whether this call wrote something."""
        match action:
            case Transition():
                return self.advance(action)
            case Conclude(job=job, outcome=outcome, summary=summary):
                summary_line = early_stopping_payload(summary)
                return self._store.record_outcome(job, outcome, action.reason, summary_line)
            case StopEarly(job=job, reason=reason, is_spared=is_spared):
                return self._trials.stop_early(job, reason, is_spared=is_spared)
            case RecordAttempts(job=job, attempts=attempts, why=why):
                self._store.record_attempts(job, attempts, why)
                self._metrics.count_attempts(job.attempts, attempts)
                return True

    def perform(self, action: Work) -> None:
        """
        Have the engine do ``action``; blocks until it is done.

        :raises EngineError: it was not done and may be tried again; the job is as it was.
        :raises RegistryUnavailable: the same.
        """
        match action:
            case AddTrial(job=job):
                self._trials.add(job)
            case PullImages(job=job, images=images):
                for image in images:
                    if not self._pull(job, image):
                        return
            case StartReplicas(job=job, replicas=replicas):
                self._start(job, replicas)
            case StopReplicas(observed=observed):
                _side_by_side(self._stop, observed)
            case RemoveJob(job_uid=uid):
                self._engine.remove_job(uid)
                if self._metric_folders:
                    self._metric_folders.remove(uid)

    def _pull(self, job: JobRecord, image: ImageRef) -> bool:
        """Pull one image of the job; whether it is there."""
        users = [replica.replica for replica in job.spec.replicas if replica.image == image]
        who = f"image {image} of the replica {users[0]}"
        started_at = self._clock()
        try:
            pull = partial(self._pull_if_allowed, job.spec.project)
            runtime = get_runtime(self._engine, self._runtimes, image, pull)
            pulled = runtime or pull(image)
        except ENGINE_MAY_DO_LATER as error:
            self._put_off(job, PullImages, error, f"The image {image} could not be pulled")
        except EngineError as error:
            message = (
                f"There is no room for the {who}: {error}"
                if isinstance(error, DiskFull)
                else f"The {who} could not be pulled: {error}"
            )
            self._fail(job, Reason(cause=error.cause, message=message, replica=str(users[0])))
        else:
            self._refusals.forget(job.uid, PullImages)
            what = f"{image}, {pulled.image_id}" if runtime else f"{image.name}@{pulled.digest}"
            self._timeline.pulled(job, str(image), what, started_at)
            self._store.record_image(job, image.pullable, pulled.image_id)
            self._store.note(job, images_message(users, what))
            return True
        return False

    def _pull_if_allowed(self, project: str, image: ImageRef) -> PulledImage:
        allowed = self._image_access.pullable(project, image)
        return self._engine.pull_image(allowed.ref, allowed.token)

    def _put_off(
        self, job: JobRecord, work: type[Work], error: EngineError | RegistryUnavailable, what: str
    ) -> None:
        """
        Say in the job's log why the work is retried, once for each reason; fail a job that was refused for too long.

        An engine that does not answer is waited for without a limit: no other job can run either.

        :param what: could not be done: ``The image I could not be pulled``.
        :raises Exception: ``error``, unless the job has failed.
        """
        has_limit = not isinstance(error, EngineUnavailable)
        refusal = self._refusals.add(job.uid, work, error, self._clock(), counts=has_limit)
        if has_limit and refusal.lasted >= self._retry_for:
            message = f"{what} for {refusal.lasted.total_seconds():.0f} seconds: {error}"
            self._fail(job, Reason(cause=error.cause, message=message))
            return
        if refusal.is_new:
            limit = f" for {self._retry_for.total_seconds():g} seconds" if has_limit else ""
            self._store.note(job, f"{error}; asking again{limit}", Severity.WARNING)
        raise error

    def _start(self, job: JobRecord, replicas: Sequence[ReplicaSpec]) -> None:
        """Start ``replicas`` side by side; if one of them cannot, the job fails, and the others are stopped with it."""
        granted = dict(
            zip(
                (r.replica for r in job.spec.replicas),
                grants(job.spec.replicas, self._capacity()),
                strict=True,
            )
        )
        errors = _side_by_side(lambda spec: self._start_one(job, spec, granted[spec.replica]), replicas)
        refused = {spec.replica: error for spec, error in zip(replicas, errors, strict=True) if error}
        final = {key: error for key, error in refused.items() if not isinstance(error, ENGINE_MAY_DO_LATER)}
        if refused and not final:
            who, error = next(iter(refused.items()))
            self._put_off(job, StartReplicas, error, f"The replica {who} could not start")
            return
        for message in [*scaled_down_messages(replicas, granted), *without_gpus_message(replicas, granted)]:
            self._store.note(job, message, Severity.WARNING)
        if final:
            messages = (f"The replica {who} could not start: {error}" for who, error in final.items())
            first = next(iter(final))
            self._fail(job, Reason(cause=final[first].cause, message=" ".join(messages), replica=str(first)))
            return
        self._refusals.forget(job.uid, StartReplicas)
        if job.attempts.pending:
            self._store.record_attempts(job, job.attempts.started(spec.replica for spec in replicas))

    def _start_one(self, job: JobRecord, spec: ReplicaSpec, granted: Resources) -> EngineError | None:
        """Start one replica; why it cannot, if so."""
        try:
            self._engine.start_replica(self._launch(job, spec, granted))
        except ImageNotFound as error:
            # Somebody removed it after the pull: pull it again.
            self._store.record_image(job, spec.image.pullable, "")
            return EngineBusy(str(error))
        except EngineError as error:
            return error
        return None

    def _stop(self, observed: ObservedReplica) -> None:
        self._engine.stop_replica(observed.container_id, self._stop_grace_seconds)

    def _fail(self, job: JobRecord, reason: Reason) -> None:
        self.decide(Conclude(job=job, outcome=JobState.FAILED, reason=reason))

    def _metric_folder(self, job: JobRecord, replica: ReplicaSpec) -> str:
        return self._metric_folders.prepare(job, replica.replica) if self._metric_folders else ""

    def _launch(self, job: JobRecord, replica: ReplicaSpec, granted: Resources) -> ReplicaLaunch:
        spec = job.spec
        metric_folder = self._metric_folder(job, replica)
        environment = {
            "GOOGLE_CLOUD_PROJECT": spec.project,
            **self._container_env,
            **cluster_environment(
                job_id=spec.job_id,
                replica=replica.replica,
                replicas=[other.replica for other in spec.replicas],
                job_parameters=spec.training_input.to_wire(),
                use_chief=spec.use_chief,
                trial_id=job.trial_id,
            ),
            **_trial_environment(job),
            **({"CLOUD_ML_HP_METRIC_FILE": METRIC_FILE} if metric_folder else {}),
        }
        return ReplicaLaunch(
            job_uid=job.uid,
            job_id=spec.job_id,
            project=spec.project,
            trial_id=job.trial_id,
            replica=replica.replica,
            attempt=job.attempts.of(replica.replica),
            image_id=job.images[replica.image.pullable],
            host_name=replica_host(spec.job_id, replica.replica),
            command=replica.command,
            args=replica.args,
            environment=environment,
            resources=granted,
            pids_limit=self._pids_limit,
            metric_folder=metric_folder,
        )


def _trial_environment(job: JobRecord) -> dict[str, str]:
    study = job.spec.training_input.hyperparameters
    return trial_environment(StudySpec.from_wire(study), job.trial_id) if job.trial and study else {}


def _side_by_side(do: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Return what ``do`` returns for each item. All are done; then the first error, if any, is raised."""
    work = list(items)
    if len(work) == 1:
        return [do(work[0])]
    with ThreadPoolExecutor(min(len(work), _SIDE_BY_SIDE), thread_name_prefix="replica") as pool:
        futures = [pool.submit(do, item) for item in work]
    return [future.result() for future in futures]
