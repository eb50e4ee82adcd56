"""Carries out the actions of ``reconcile.py`` on the store and the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from container_engines.base import Engine, ObservedReplica, StillStarting
from container_engines.pull_watch import PullAbandoned
from training_api.cloud_logging import Severity
from training_api.errors import (
    DiskFull,
    EngineBusy,
    EngineError,
    EngineUnavailable,
    ImageNotFound,
    RegistryUnavailable,
)
from training_api.job.capacity import Capacity, grants
from training_api.job.dialect import Dialects
from training_api.job.image_ref import ImageRef
from training_api.job.machines import Resources
from training_api.job.replica_spec import ReplicaSpec
from training_api.retrying import ENGINE_MAY_DO_LATER
from training_api.states import JobState
from training_service.loop.launches import Launches
from training_service.loop.pools import side_by_side
from training_service.loop.pulls import Pulls
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
from training_service.store.jobs.job_store import JobStore
from training_service.store.leadership import NotActive
from training_service.store.refusal_store import RefusalStore
from training_service.studies.trial_planner import TrialPlanner
from training_service.telemetry.metrics import Metrics
from training_service.telemetry.timeline import Timeline

#: Decisions that are written in one transaction: others wait that long for their turn to write.
_DECISIONS_AT_ONCE = 20


class Actions:
    """
    Carries out actions; each may be repeated. Safe for threads, one action a job at a time.

    :param dialects: how jobs call their replicas.
    :param trials: adds trials to tuning jobs.
    :param refusals: what jobs were refused, including before a restart.
    :param capacity: the machine's capacity; raises ``EngineUnavailable`` while it is unknown.
    :param retry_for: how long to retry while a registry does not answer, or the engine refuses for now.
    :param timeline: records pulls.
    :param before_engine: called before each action on the engine; raises if another service moves the jobs
        now.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        dialects: Dialects,
        engine: Engine,
        metrics: Metrics,
        trials: TrialPlanner,
        refusals: RefusalStore,
        capacity: Callable[[], Capacity],
        pulls: Pulls,
        launches: Launches,
        timeline: Timeline,
        stop_grace_seconds: float,
        retry_for: timedelta,
        before_engine: Callable[[], None] = lambda: None,
        clock: Clock = utc_now,
    ) -> None:
        self._store = store
        self._dialects = dialects
        self._timeline = timeline
        self._engine = engine
        self._before_engine = before_engine
        self._metrics = metrics
        self._trials = trials
        self._capacity = capacity
        self._stop_grace_seconds = stop_grace_seconds
        self._retry_for = retry_for
        self._refusals = Refusals(refusals)
        self._pulls = pulls
        self._launches = launches
        self._clock = clock
        #: Jobs whose replicas still start, and whose log says what these get.
        self._told: set[str] = set()

    def decide(self, decisions: Sequence[Decision]) -> bool:
        """
        Write ``decisions``; whether any was news (others may have moved the jobs first).

        One that cannot be written does not stop the others.

        :raises ExceptionGroup: what went wrong with single ones; all others are written.
        """
        is_news, failures = False, []
        for start in range(0, len(decisions), _DECISIONS_AT_ONCE):
            written = []
            with self._store.together():
                for decision in decisions[start : start + _DECISIONS_AT_ONCE]:
                    try:
                        if self._write(decision):
                            written.append(decision)
                    except (NotActive, sa.exc.OperationalError):
                        raise
                    except Exception as error:
                        error.add_note(f"{type(decision).__name__} of the job {decision.job.uid}")
                        failures.append(error)
            for decision in written:
                self._after(decision)
            is_news = is_news or bool(written)
        if failures:
            raise ExceptionGroup("decisions could not be written", failures)
        return is_news

    def _write(self, decision: Decision) -> bool:
        """Write a decision; whether this call did it."""
        match decision:
            case Transition(job=job, to=to, reason=reason):
                message = state_message(job, to, reason)
                return self._store.advance(job, to, at=decision.at, message=message, reason=reason)
            case Conclude(job=job, outcome=outcome, summary=summary):
                summary_line = early_stopping_payload(summary)
                return self._store.record_outcome(job, outcome, decision.reason, summary_line)
            case StopEarly(job=job, reason=reason, is_spared=is_spared):
                return self._trials.stop_early(job, reason, is_spared=is_spared)
            case RecordAttempts(job=job, attempts=attempts, why=why):
                self._store.record_attempts(job, attempts, why)
                return True

    def _after(self, decision: Decision) -> None:
        """Do what follows from a decision that is stored."""
        match decision:
            case Transition(job=job, to=to):
                self._metrics.count_transition(job, to, decision.at, decision.reason)
                self._told.discard(job.uid)
                if to.is_terminal:
                    self._refusals.forget(job.uid, PullImages, StartReplicas)
            case RecordAttempts(job=job, attempts=attempts):
                self._metrics.count_attempts(job.attempts, attempts)

    def give_up_pulls(self, *, wanted: Collection[str]) -> None:
        """Give up the pulls of all jobs but those of these uids: of jobs that end."""
        self._pulls.give_up_all_but(wanted)

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
            case StartReplicas():
                self._start(action)
            case StopReplicas(observed=observed):
                side_by_side(self._stop, observed)
            case RemoveJob(job_uid=uid):
                self._before_engine()
                self._engine.remove_job(uid)
                self._launches.remove(uid)

    def _pull(self, job: JobRecord, image: ImageRef) -> bool:
        """Pull one image of the job; return whether it is there."""
        users = [replica.replica for replica in job.spec.replicas if replica.image == image]
        dialect = self._dialects[job.spec.dialect]
        who = f"image {image} of the replica {dialect.replica_name(users[0])}"
        started_at = self._clock()
        try:
            image_id, what = self._pulls.pull(job, image)
        except PullAbandoned:
            return False
        except ENGINE_MAY_DO_LATER as error:
            self._put_off(job, PullImages, error, started_at, f"The image {image} could not be pulled")
        except EngineError as error:
            message = (
                f"There is no room for the {who}: {error}"
                if isinstance(error, DiskFull)
                else f"The {who} could not be pulled: {error}"
            )
            self.fail(job, Reason(cause=error.cause, message=message, replica=str(users[0])))
        else:
            self._refusals.forget(job.uid, PullImages)
            self._timeline.pulled(job, str(image), what, started_at)
            self._store.record_image(job, image.pullable, image_id)
            self._store.note(job, images_message(users, what, dialect.task_name))
            return True
        return False

    def _put_off(
        self,
        job: JobRecord,
        work: type[Work],
        error: EngineError | RegistryUnavailable,
        asked_at: datetime,
        what: str,
    ) -> None:
        """
        Write once per reason to the job's log why work is retried; fail the job after too long.

        While the engine does not answer there is no limit: no other job can run either.

        :param what: what could not be done: ``The image I could not be pulled``.
        :raises Exception: ``error``, unless the job has failed.
        """
        has_limit = not isinstance(error, EngineUnavailable)
        refusal = self._refusals.add(
            job.uid, work, error, asked_at=asked_at, now=self._clock(), counts=has_limit
        )
        if has_limit and refusal.lasted >= self._retry_for:
            message = f"{what} for {refusal.lasted.total_seconds():.0f} seconds: {error}"
            self.fail(job, Reason(cause=error.cause, message=message))
            return
        if refusal.is_new:
            limit = f" for {self._retry_for.total_seconds():g} seconds" if has_limit else ""
            self._store.note(job, f"{error}; asking again{limit}", Severity.WARNING)
        raise error

    def _start(self, start: StartReplicas) -> None:
        """Start replicas side by side; if one cannot start, fail the job and stop the others."""
        job, replicas = start.job, start.replicas
        asked_at, dialect = self._clock(), self._dialects[job.spec.dialect]
        capacity = self._capacity()
        granted = dict(
            zip((r.replica for r in job.spec.replicas), grants(job.spec.replicas, capacity), strict=True)
        )

        # Written before the start, so that the next step of the loop can move a job that runs.
        if job.uid not in self._told:
            for message in (
                *scaled_down_messages(replicas, granted, dialect.task_name),
                *without_gpus_message(replicas, granted, dialect.task_name),
            ):
                self._store.note(job, message, Severity.WARNING)
            self._told.add(job.uid)

        def start_one(spec: ReplicaSpec) -> EngineError | None:
            size, machine = granted[spec.replica], start.machines.get(spec.replica, "")
            return self._start_one(job, spec, size, machine, capacity.reserved(size))

        errors = side_by_side(start_one, replicas)
        refused = {spec.replica: error for spec, error in zip(replicas, errors, strict=True) if error}
        final = {key: error for key, error in refused.items() if not isinstance(error, ENGINE_MAY_DO_LATER)}
        put_off = {who: error for who, error in refused.items() if not isinstance(error, StillStarting)}
        if put_off and not final:
            who, error = next(iter(put_off.items()))
            name = dialect.replica_name(who)
            self._put_off(job, StartReplicas, error, asked_at, f"The replica {name} could not start")
            return
        if final:
            messages = (
                f"The replica {dialect.replica_name(who)} could not start: {error}"
                for who, error in final.items()
            )
            first = next(iter(final))
            self.fail(job, Reason(cause=final[first].cause, message=" ".join(messages), replica=str(first)))
            return
        self._refusals.forget(job.uid, StartReplicas)
        if refused:
            # The replicas that have started are seen on the engine.
            raise next(iter(refused.values()))
        self._told.discard(job.uid)
        if job.attempts.pending:
            self._store.record_attempts(job, job.attempts.started(spec.replica for spec in replicas))

    def _start_one(
        self, job: JobRecord, spec: ReplicaSpec, granted: Resources, machine: str, reserved: Resources
    ) -> EngineError | None:
        """Start one replica; return why it cannot start, if so."""
        try:
            launch = self._launches.launch_of(job, spec, granted, machine)
            self._before_engine()
            self._engine.start_replica(replace(launch, reserved=reserved))
        except ImageNotFound as error:
            # It was removed after the pull: pull it again.
            self._store.record_image(job, spec.image.pullable, "")
            return EngineBusy(str(error))
        except EngineError as error:
            return error
        return None

    def _stop(self, observed: ObservedReplica) -> None:
        self._before_engine()
        self._engine.stop_replica(observed.container_id, self._stop_grace_seconds)

    def fail(self, job: JobRecord, reason: Reason) -> None:
        """Write that the job fails, if it has not been decided; the loop then stops what runs of it."""
        self.decide([Conclude(job=job, outcome=JobState.FAILED, reason=reason)])
