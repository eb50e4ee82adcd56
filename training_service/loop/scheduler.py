"""
The loop: observe, reconcile, act. It owns the clock and the waiting; what to do is decided in ``reconcile.py``.

Slow actions (pull, start, stop, remove) run on worker threads, one a job at a time; while one runs, its job is busy and
left alone. A kill of the process at any moment loses nothing: states are in the store, containers carry labels.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime
from typing import Protocol

import structlog

from container_engines.base import Engine, EngineView, ObservedReplica
from training_api.errors import EngineError, RegistryUnavailable
from training_api.job.capacity import Capacity
from training_service.loop.pauses import Pauses
from training_service.loop.performer import Actions
from training_service.loop.reconcile import reconcile
from training_service.model.clock import Clock, utc_now
from training_service.model.records import JobRecord
from training_service.model.work import Action, Decision, RemoveJob, Work
from training_service.store.job_store import JobStore
from training_service.studies.studies import Studies
from training_service.telemetry.metrics import Metrics

#: The loop is woken by events; these are only the longest it sleeps without one.
_ACTIVE_SECONDS = 1.0
_IDLE_SECONDS = 15.0

logger = structlog.get_logger(__name__)


class Collector(Protocol):
    """What the loop needs of a log collector."""

    @property
    def drained(self) -> frozenset[str]:
        """Containers whose log is stored to its last line."""

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the container is followed."""

    def forget(self, present: set[str]) -> None:
        """Drop what is known of containers that are gone."""


class Faults(Protocol):
    """What goes wrong on purpose (``faults/``)."""

    def allowed(self, actions: list[Action], now: datetime) -> list[Action]:
        """Return those of ``actions`` that no fault withholds."""

    def lose_replicas(self, jobs: list[JobRecord], view: EngineView, now: datetime) -> None:
        """Kill the containers whose time has come."""


class Scheduler:
    """
    Moves every job towards its end.

    :param capacity: the room of the machine; raises ``EngineUnavailable`` while nobody knows it.
    :param studies: what is known of tuning jobs' trials.
    :param faults: default: nothing goes wrong on purpose.
    :param executor: runs slow actions; tests pass one that runs them at once.
    :param retry_seconds: the first pause before an action that the engine refused is retried; the next are longer.
    :param jitter: random, from 0 to 1: how these pauses differ.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        engine: Engine,
        collector: Collector,
        actions: Actions,
        executor: Executor,
        metrics: Metrics,
        capacity: Callable[[], Capacity],
        studies: Studies,
        faults: Faults | None = None,
        retry_seconds: float = 1.0,
        jitter: Callable[[], float] = random.random,
        clock: Clock = utc_now,
    ) -> None:
        self._store = store
        self._engine = engine
        self._collector = collector
        self._actions = actions
        self._executor = executor
        self._metrics = metrics
        self._capacity = capacity
        self._studies = studies
        self._faults = faults
        self._pauses = Pauses(retry_seconds, jitter)
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._engine_answers = True
        self._problem = ""

    @property
    def problem(self) -> str:
        """What the last iteration of the loop ended in, if that was a bug; empty: it was none."""
        return self._problem

    def notify(self) -> None:
        """Have the loop look again at once; safe from any thread."""
        self._wake.set()

    def start(self) -> None:
        """Start the loop and the event watcher on threads of their own."""
        for target in (self._run, self._watch):
            thread = threading.Thread(target=target, name=f"scheduler{target.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the loop; containers go on, and the next service adopts them."""
        self._stopping.set()
        self._wake.set()
        self._threads[0].join(timeout=10)

    def step(self) -> bool:
        """
        Observe, reconcile and act once; whether there is anything that has not ended.

        :raises EngineError: the engine could not be observed; nothing was done.
        """
        with self._lock:
            busy = frozenset(self._busy)
        # Jobs are read before the engine: a job that is too new is not yet missing its containers, and a container
        # whose job is too new is protected by the read below.
        active = self._store.read_active()
        view = self._engine.observe()
        if view.job_uids - {job.uid for job in active.jobs}:
            active = self._store.read_active()
        jobs = list(active.jobs)
        for broken in active.unreadable:
            logger.error("job cannot be read", **_names(broken.record), reason=broken.why)
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
            studies=self._studies.look(jobs),
            unreadable=active.unreadable,
        )
        if self._faults:
            self._faults.lose_replicas(jobs, view, now)
            actions = self._faults.allowed(actions, now)
        for action in actions:
            self._perform(action, now)
        return bool(alive)

    def _follow_logs(self, jobs: list[JobRecord], view: EngineView) -> None:
        by_uid = {job.uid: job for job in jobs}
        for observed in view.replicas:
            if observed.job_uid in by_uid:
                self._collector.follow(by_uid[observed.job_uid], observed)
        self._collector.forget({observed.container_id for observed in view.replicas})

    def _perform(self, action: Action, now: datetime) -> None:
        if isinstance(action, Decision):
            if self._actions.decide(action):
                self._wake.set()
            return
        uid = action.job_uid if isinstance(action, RemoveJob) else action.job.uid
        with self._lock:
            if uid in self._busy or self._pauses.is_paused(uid, type(action), now):
                return
            self._busy.add(uid)
        self._executor.submit(self._act, uid, action)

    def _act(self, uid: str, action: Work) -> None:
        failure: Exception | None = None
        try:
            self._actions.perform(action)
        except (EngineError, RegistryUnavailable) as error:
            # Nothing was recorded, so the action is asked for again.
            failure = error
            self._metrics.engine_errors.inc()
            logger.warning("engine refused", job_uid=uid, action=type(action).__name__, reason=str(error))
        except Exception as error:
            # A bug: shown, and the action is asked for again.
            failure = error
            logger.exception("action failed", job_uid=uid, action=type(action).__name__)
        with self._lock:
            if failure is None:
                self._pauses.end(uid, type(action))
            else:
                self._pauses.begin(uid, type(action), failure, self._clock())
            self._busy.discard(uid)
        self._wake.set()

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
            except EngineError as error:
                self._metrics.engine_errors.inc()
                self._report_engine(answers=False, reason=str(error))
            except Exception as error:
                # The loop must outlive a bug in one step; the trace is in the log, the count in /metrics.
                self._metrics.loop_errors.inc()
                self._problem = type(error).__name__
                logger.exception("step failed")
            # Half of the time is the requests': under load a step costs much, and then sees more that is new.
            self._stopping.wait(min(time.monotonic() - started, _ACTIVE_SECONDS))
            self._wake.wait(timeout=pause)

    def _watch(self) -> None:
        """Wake the loop when a container starts or ends."""
        while not self._stopping.is_set():
            try:
                for _ in self._engine.events():
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
