"""
The loop: observe, reconcile, act.

It owns the clock and the waiting; ``reconcile.py`` decides what to do. Slow actions (pull, start, stop,
remove) run on worker threads, one per job at a time. Meanwhile the job is busy: only a cancel is decided for
it, and the cancel ends its pull. A kill of the process at any moment loses nothing: states are in the store,
and containers carry labels.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import sqlalchemy as sa
import structlog

from container_engines.base import Engine, EngineView, ObservedReplica, StillStarting
from training_api.errors import EngineError, RegistryUnavailable
from training_api.job.capacity import Capacity
from training_api.job.dialect import Dialects
from training_api.job.placement import Placement
from training_api.retrying import draw_jitter
from training_service.loop.disk_hold import DiskHold
from training_service.loop.pauses import Pauses
from training_service.loop.performer import Actions
from training_service.loop.pools import Workers
from training_service.loop.reconcile import reconcile
from training_service.loop.strangers import Strangers
from training_service.model.clock import Clock, utc_now
from training_service.model.heartbeat import Heartbeat
from training_service.model.records import ActiveJobs, JobRecord
from training_service.model.work import Action, Decision, RemoveJob, Work
from training_service.store.jobs.job_store import JobStore
from training_service.store.leadership import NotActive
from training_service.studies.studies import Studies
from training_service.telemetry.metrics import Metrics

#: Events wake the loop; these are only the longest sleeps without one.
_ACTIVE_SECONDS = 1.0
_IDLE_SECONDS = 15.0
#: The engine tells of an end a moment before its list of containers shows it: look again after so long.
_SETTLING_SECONDS = 0.1
#: A step that takes no longer leaves enough time to requests.
_SHORT_SECONDS = 0.05
#: How long to wait for the end of an iteration; one that waits for the engine may take a minute.
_STOP_SECONDS = 2.0
#: The most decisions that one iteration writes, because a thousand jobs may be cancelled at once; the next
#: iteration follows at once.
_DECISIONS = 100

logger = structlog.get_logger(__name__)


class Observer(Protocol):
    """Watches containers; the loop does not wait for it."""

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the container is followed."""

    def forget(self, present: set[str]) -> None:
        """Drop what is known of containers that are gone."""


class Collector(Observer, Protocol):
    """A log collector, as the loop needs it."""

    @property
    def drained(self) -> frozenset[str]:
        """Containers whose log is stored to its last line."""


class Faults(Protocol):
    """Injected faults (``faults/``)."""

    def allowed(self, actions: list[Action], now: datetime) -> list[Action]:
        """Return those of ``actions`` that no fault withholds."""

    def lose_replicas(self, jobs: list[JobRecord], view: EngineView, now: datetime) -> None:
        """Kill the containers that are due."""


class Scheduler:
    """
    Moves every job towards its end.

    :param dialects: those of jobs; a job of another is ended as one that cannot be read.
    :param capacity: the machine's capacity; raises ``EngineUnavailable`` while it is unknown.
    :param studies: what is known of tuning jobs' trials.
    :param faults: default: no injected faults.
    :param hold: keeps jobs in the queue while a disk is full; default: nothing does.
    :param heartbeat: records each good iteration.
    :param workers: run slow actions; in tests, at once.
    :param stranger_grace: how long containers are kept whose job is not in the database.
    :param retry_seconds: the first pause before an action that the engine refused is retried; later ones are
        longer.
    :param jitter: random, from 0 to 1: varies these pauses.
    :param placement: how replicas are put on several machines, unless their job says otherwise.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        engine: Engine,
        collector: Collector,
        actions: Actions,
        workers: Workers,
        metrics: Metrics,
        dialects: Dialects,
        capacity: Callable[[], Capacity],
        studies: Studies,
        faults: Faults | None = None,
        stranger_grace: timedelta = timedelta(),
        hold: DiskHold | None = None,
        heartbeat: Heartbeat | None = None,
        retry_seconds: float = 1.0,
        jitter: Callable[[], float] = draw_jitter,
        placement: Placement = Placement.SPREAD,
        clock: Clock = utc_now,
    ) -> None:
        self._store = store
        self._engine = engine
        self._collector = collector
        self._actions = actions
        self._workers = workers
        self._metrics = metrics
        self._dialects = dialects
        self._capacity = capacity
        self._studies = studies
        self._faults = faults
        self._hold = hold
        self._heartbeat = heartbeat or Heartbeat()
        self._pauses = Pauses(retry_seconds, jitter)
        self._placement = placement
        self._strangers = Strangers(store.known, stranger_grace)
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._engine_answers = True
        self._problem = ""
        self._event_at = float("-inf")

    @property
    def problem(self) -> str:
        """The error of the loop's last iteration, if that was a bug; else empty."""
        return self._problem

    def notify(self) -> None:
        """Start the next iteration at once; safe from any thread."""
        self._wake.set()

    def start(self) -> None:
        """Start the loop and the event watcher, each on a thread."""
        self._heartbeat.beat()
        for target in (self._run, self._watch):
            thread = threading.Thread(target=target, name=f"scheduler{target.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the loop soon; containers continue, and the next service adopts them."""
        self._stopping.set()
        self._wake.set()
        # None: it has not been started.
        for thread in self._threads[:1]:
            thread.join(timeout=_STOP_SECONDS)

    def step(self) -> bool:
        """
        Observe, reconcile and act once; return whether anything has not ended.

        :raises EngineError: the engine could not be observed; nothing was done.
        """
        with self._lock:
            busy = frozenset(self._busy)
        # Read jobs before the engine: a job that is too new then misses no containers, and the read below
        # protects a container whose job is too new.
        active = self._read_active()
        view = self._engine.observe()
        unknown = view.job_uids - active.uids
        if unknown and self._store.active_uids(among=unknown):
            active = self._read_active()
        jobs = list(active.jobs)
        for broken in active.unreadable:
            logger.error("job cannot be read", **_names(broken.record), reason=broken.why)
        self._actions.give_up_pulls(wanted={job.uid for job in jobs if not job.is_ending})
        self._follow_logs(jobs, view)
        alive = {job.uid for job in jobs} | view.job_uids
        now = self._clock()
        with self._lock:
            self._pauses.keep(alive)
        actions = reconcile(
            jobs=jobs,
            view=view,
            drained=self._collector.drained,
            busy=busy,
            now=now,
            capacity=self._capacity(),
            dialects=self._dialects,
            studies=self._studies.look(jobs),
            unreadable=active.unreadable,
            strangers=self._strangers.kept(view, active.uids, now),
            placement=self._placement,
        )
        if self._faults:
            self._faults.lose_replicas(jobs, view, now)
            actions = self._faults.allowed(actions, now)
        if self._hold:
            actions = self._hold.allowed(actions)
        self._perform_all(actions, now)
        return bool(alive)

    def _read_active(self) -> ActiveJobs:
        return self._store.read_active().of_dialects(self._dialects)

    def _perform_all(self, actions: list[Action], now: datetime) -> None:
        decisions = [action for action in actions if isinstance(action, Decision)]
        failure = None
        try:
            if self._actions.decide(decisions[:_DECISIONS]) or len(decisions) > _DECISIONS:
                self._wake.set()
        except ExceptionGroup as error:
            failure = error
        for action in actions:
            if not isinstance(action, Decision):
                self._perform(action, now)
        if failure:
            raise failure

    def _follow_logs(self, jobs: list[JobRecord], view: EngineView) -> None:
        by_uid = {job.uid: job for job in jobs}
        for observed in view.replicas:
            if observed.job_uid in by_uid:
                self._collector.follow(by_uid[observed.job_uid], observed)
        self._collector.forget({observed.container_id for observed in view.replicas})

    def _perform(self, action: Work, now: datetime) -> None:
        uid = action.job_uid if isinstance(action, RemoveJob) else action.job.uid
        with self._lock:
            if uid in self._busy or self._pauses.is_paused(uid, type(action), now):
                return
            self._busy.add(uid)
        if not self._workers.start(action, do=partial(self._act, uid, action), after=self._wake.set):
            self._set_free(uid)

    def _act(self, uid: str, action: Work) -> None:
        failure: Exception | None = None
        try:
            self._actions.perform(action)
        except StillStarting as error:
            # Nothing is wrong. Until it is asked for again, others have its place, and a cancel takes effect.
            failure = error
        except (EngineError, RegistryUnavailable) as error:
            # Nothing was recorded, so the action is retried.
            failure = error
            self._metrics.engine_errors.inc()
            logger.warning("engine refused", job_uid=uid, action=type(action).__name__, reason=str(error))
        except NotActive as error:
            failure = error
            logger.warning("action not done", job_uid=uid, action=type(action).__name__, reason=str(error))
        except Exception as error:
            # A bug: it is reported, and the action is retried.
            failure = error
            logger.exception("action failed", job_uid=uid, action=type(action).__name__)
        with self._lock:
            if failure is None:
                self._pauses.end(uid, type(action))
            else:
                self._pauses.begin(uid, type(action), failure, self._clock())
        self._set_free(uid)

    def _set_free(self, uid: str) -> None:
        with self._lock:
            self._busy.discard(uid)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            started = time.monotonic()
            pause = _ACTIVE_SECONDS
            try:
                with self._metrics.step_seconds.time():
                    pause = _ACTIVE_SECONDS if self.step() else _IDLE_SECONDS
                self._report_engine(answers=True)
                self._problem = ""
                self._heartbeat.beat()
            except NotActive as error:
                logger.error("the loop ends", reason=str(error))
                self._stopping.set()
            except EngineError as error:
                self._metrics.engine_errors.inc()
                self._report_engine(answers=False, reason=str(error))
                # The loop is alive: it waits for the engine.
                self._heartbeat.beat()
            except sa.exc.OperationalError as error:
                # The loop is alive: it waits for the database, which is full, or does not answer.
                self._metrics.loop_errors.inc()
                self._heartbeat.beat()
                if self._problem != (problem := type(error).__name__):
                    logger.error("the database does not work", reason=str(error.orig))
                self._problem = problem
            except Exception as error:
                # The loop must outlive a bug in one step; the trace is in the log, the count in /metrics.
                self._metrics.loop_errors.inc()
                self._problem = type(error).__name__
                logger.exception("step failed")
            # A long step leaves half of the time to requests; the next one then sees more news.
            took = time.monotonic() - started
            if took > _SHORT_SECONDS:
                self._stopping.wait(min(took, _ACTIVE_SECONDS))
            # Counted from its start: a step that takes long may have read the list before it showed the end.
            is_settling = started - self._event_at < 2 * _SETTLING_SECONDS
            self._wake.wait(timeout=_SETTLING_SECONDS if is_settling else pause)

    def _watch(self) -> None:
        """Wake the loop when a container starts or ends."""
        while not self._stopping.is_set():
            try:
                for _ in self._engine.events():
                    self._event_at = time.monotonic()
                    self._wake.set()
            except EngineError:
                # The loop reports the engine's absence and polls meanwhile; here only the pace matters.
                pass
            self._stopping.wait(_ACTIVE_SECONDS)

    def _report_engine(self, *, answers: bool, reason: str = "") -> None:
        if answers != self._engine_answers:
            self._engine_answers = answers
            if answers:
                logger.info("engine is back")
            else:
                logger.error("engine does not answer", reason=reason)


def _names(job: JobRecord) -> dict[str, str]:
    """Return what finds a job in the database, and its log."""
    return {"project": job.spec.project, "job": job.spec.job_id, "trial": job.trial_id, "job_uid": job.uid}
