"""
Containers' output into log entries.

One thread a container follows its log, one thread for all stores what has been read every fifth of a second.
A reader that is ahead of the store waits, so memory stays bounded, and the trainer never notices: the engine
keeps its log on disk. After a crash, reading goes on from the newest stored line. Of a flood the middle is
dropped (``log_limiter.py``).

No job waits for ever for the log of a container that has ended: a follower that gets nothing any more is
abandoned, the rest is read once without following, and if that hangs, too, the log says that its end may be
missing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

import sqlalchemy as sa
import structlog

from container_engines.base import Engine, ObservedReplica
from training_api.job.dialect import Dialects
from training_api.states import ReplicaState
from training_service.intake.log_batch import LogBatch
from training_service.intake.log_limiter import JobBudget, LogLimit, Loss
from training_service.intake.log_reading import LogReading
from training_service.model.records import JobRecord
from training_service.store.logs.log_store import LogSource, LogStore

_FLUSH_SECONDS = 0.2
#: How long after its end a container may give no line before its follower counts as hung.
_END_SECONDS = 10.0
#: The same for reading without following: the engine may have to pass 512 MB before the first new line.
_LAST_SECONDS = 30.0

#: Text that all readers together may hold in memory: what waits for the store, and the ends of floods.
_HELD_BYTES = 128 << 20
#: However many they are, each may hold this.
_LEAST_HELD_BYTES = 64 << 10

#: Refusals by the database that follow each other sooner are one outage.
_OUTAGE_SECONDS = 60.0

logger = structlog.get_logger(__name__)


class LogCollector:
    """
    Follows the containers that it is shown.

    :param dialects: which name the replicas of jobs in their logs.
    :param on_drained: called when a container's last line is stored.
    :param on_loss: called for every loss that is stored.
    :param end_seconds: how long the follower of a container that has ended may get nothing before it is
        abandoned.
    :param last_seconds: how long the reading without following may get nothing before the job may end without
        the rest.
    :param has_room: whether lines may be stored now; those that may not are left out, which is a loss.
    """

    def __init__(
        self,
        engine: Engine,
        store: LogStore,
        on_drained: Callable[[], None],
        *,
        dialects: Dialects,
        limit: LogLimit | None = None,
        on_loss: Callable[[Loss], None] = lambda _: None,
        end_seconds: float = _END_SECONDS,
        last_seconds: float = _LAST_SECONDS,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._end_seconds = end_seconds
        self._last_seconds = last_seconds
        self._engine = engine
        self._store = store
        self._on_drained = on_drained
        self._dialects = dialects
        self._limit = limit or LogLimit()
        self._on_loss = on_loss
        self._has_room = has_room
        #: A job's budget lives as long as one of its containers is followed.
        self._budgets: WeakValueDictionary[tuple[str, str], JobBudget] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._readings: dict[str, LogReading] = {}
        #: When each container that has ended was first seen so, by the monotonic clock.
        self._ended_at: dict[str, float] = {}
        self._drained: set[str] = set()
        #: When the database last refused lines, by the monotonic clock.
        self._refused_at = -math.inf
        self._work = threading.Event()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the storing thread."""
        threading.Thread(target=self._flush_forever, name="logs-flush", daemon=True).start()

    def stop(self) -> None:
        """End all following; what was not stored yet is read again by the next service."""
        self._stopping.set()
        self._work.set()

    @property
    def drained(self) -> frozenset[str]:
        """Containers whose log is stored to its last line."""
        with self._lock:
            return frozenset(self._drained)

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the container is followed; returns at once."""
        container = observed.container_id
        with self._lock:
            if observed.state is ReplicaState.EXITED:
                self._ended_at.setdefault(container, time.monotonic())
            started = observed.state is not ReplicaState.CREATED
            if not started or container in self._readings or container in self._drained:
                return
            batch = LogBatch(
                self._store,
                log_source(record, observed, self._dialects),
                limit=self._limit,
                budget=self._budget(record),
                started_at=observed.started_at,
                room=lambda: max(_HELD_BYTES // max(len(self._readings), 1), _LEAST_HELD_BYTES),
                on_loss=self._on_loss,
                has_room=self._has_room,
            )
            reading = self._readings[container] = self._reading(container, batch)
            self._work.set()
        self._start(reading)

    def forget(self, present: Iterable[str]) -> None:
        """Drop what is known of containers that are no longer ``present``."""
        keep, now = set(present), time.monotonic()
        with self._lock:
            self._drained &= keep
            gone = self._readings.keys() - keep
            # A container that is gone has ended, too; its reading goes on with what the engine still gives.
            self._ended_at = {
                container: self._ended_at.get(container, now)
                for container in (self._ended_at.keys() & keep) | gone
            }

    def _budget(self, record: JobRecord) -> JobBudget:
        """Return what all replicas of a job, and of its trials, share; less what is stored."""
        key = record.spec.project, record.spec.job_id
        budget = self._budgets.get(key)
        if budget is None:
            # The database is asked by the thread that reads, not by the loop's.
            budget = JobBudget(self._limit.job_bytes, lambda: self._store.text_bytes(*key))
            self._budgets[key] = budget
        return budget

    def _start(self, reading: LogReading) -> None:
        name = f"logs-{reading.container[:12]}"
        threading.Thread(target=self._read, args=(reading,), name=name, daemon=True).start()

    def _read(self, reading: LogReading) -> None:
        is_whole = False
        try:
            is_whole = reading.run()
        finally:
            self._end(reading, is_drained=is_whole)

    def _end(self, reading: LogReading, *, is_drained: bool) -> None:
        container = reading.container
        with self._lock:
            if self._readings.get(container) is not reading:
                return  # it was abandoned
            del self._readings[container]
            if is_drained:
                self._drained.add(container)
        self._on_drained()

    def _has_ended(self, container: str) -> bool:
        with self._lock:
            return container in self._ended_at

    def _flush_forever(self) -> None:
        while not self._stopping.is_set():
            self._work.wait()
            with self._lock:
                readings = [(each, self._ended_at.get(each.container)) for each in self._readings.values()]
                if not readings:
                    self._work.clear()
            for reading, ended_at in readings:
                try:
                    reading.batch.flush()
                    if ended_at is not None and self._hangs(reading, ended_at):
                        self._abandon(reading)
                except sa.exc.SQLAlchemyError as error:
                    # The batch keeps its lines; this thread serves all jobs and must outlive one busy moment.
                    self._tell(error)
            self._stopping.wait(_FLUSH_SECONDS)

    def _tell(self, error: sa.exc.SQLAlchemyError) -> None:
        """Say that the database refuses lines: once for all containers and tries."""
        with self._lock:
            before, self._refused_at = self._refused_at, time.monotonic()
        if self._refused_at - before > _OUTAGE_SECONDS:
            logger.error("logs not stored, trying again until they are", reason=str(error))

    def _hangs(self, reading: LogReading, ended_at: float) -> bool:
        return reading.is_hung(ended_at, self._last_seconds if reading.is_last else self._end_seconds)

    def _abandon(self, reading: LogReading) -> None:
        """Read the rest without following; if that hangs, let the job end without it."""
        is_last = reading.is_last  # its thread may wake up, and begin its last reading
        logger.warning("log hangs", container=reading.container, gives_up=is_last)
        reading.batch.close(is_end_missing=is_last)
        if is_last:
            self._end(reading, is_drained=True)
            return
        batch = reading.batch.successor()
        following = self._reading(reading.container, batch, is_last=True)
        with self._lock:
            if self._readings.get(reading.container) is not reading:
                return  # it ended just now
            self._readings[reading.container] = following
        self._start(following)

    def _reading(self, container: str, batch: LogBatch, *, is_last: bool = False) -> LogReading:
        return LogReading(
            self._engine,
            container,
            batch,
            self._stopping,
            lambda: self._has_ended(container),
            self._tell,
            is_last=is_last,
        )


def log_source(record: JobRecord, observed: ObservedReplica, dialects: Dialects) -> LogSource:
    """Return whose lines a container's are, in the words of the job's dialect."""
    return LogSource(
        project=record.spec.project,
        job_id=record.spec.job_id,
        task_name=dialects[record.spec.dialect].task_name(observed.replica),
        trial_id=record.trial_id,
        container=observed.container_id,
    )
