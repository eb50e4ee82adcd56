"""
Containers' output into log entries.

One thread a container follows its log, one thread for all stores what has been read every fifth of a second.
A reader that is ahead of the store waits, so memory stays bounded, and the trainer never notices: the engine
keeps its log on disk. After a crash, reading goes on from the newest stored line. Of a flood the middle is
dropped (``limiter.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

import sqlalchemy as sa
import structlog

from container_engines.base import Engine, ObservedReplica
from training_api.errors import EngineError, EngineUnavailable
from training_api.states import ReplicaState
from training_service.intake.log_batch import LogBatch
from training_service.intake.log_limiter import JobBudget, LogLimit, Loss
from training_service.model.records import JobRecord
from training_service.store.log_store import LogSource, LogStore

_FLUSH_SECONDS = 0.2
_SETTLE_SECONDS = 0.05
_RETRY_SECONDS = 0.5

logger = structlog.get_logger(__name__)


class LogCollector:
    """
    Follows the containers that it is shown.

    :param on_drained: called when a container's last line is stored.
    :param on_loss: called for every loss that is stored.
    """

    def __init__(
        self,
        engine: Engine,
        store: LogStore,
        on_drained: Callable[[], None],
        *,
        limit: LogLimit | None = None,
        on_loss: Callable[[Loss], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._store = store
        self._on_drained = on_drained
        self._limit = limit or LogLimit()
        self._on_loss = on_loss
        #: A job's budget lives as long as one of its containers is followed.
        self._budgets: WeakValueDictionary[str, JobBudget] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._batches: dict[str, LogBatch] = {}
        self._exited: set[str] = set()
        self._present: set[str] = set()
        self._drained: set[str] = set()
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
            self._present.add(container)
            if observed.state is ReplicaState.EXITED:
                self._exited.add(container)
            started = observed.state is not ReplicaState.CREATED
            if not started or container in self._batches or container in self._drained:
                return
            batch = LogBatch(
                self._store,
                LogSource(
                    project=record.spec.project,
                    job_id=record.spec.job_id,
                    task_name=observed.replica.task_name,
                    trial_id=record.trial_id,
                ),
                limit=self._limit,
                budget=self._budget(record),
                on_loss=self._on_loss,
            )
            self._batches[container] = batch
            self._work.set()
        threading.Thread(
            target=self._follow, args=(container, batch), name=f"logs-{container[:12]}", daemon=True
        ).start()

    def forget(self, present: Iterable[str]) -> None:
        """Drop what is known of containers that are no longer ``present``."""
        keep = set(present)
        with self._lock:
            self._exited &= keep
            self._drained &= keep
            self._present &= keep

    def _budget(self, record: JobRecord) -> JobBudget:
        """Return what all replicas of a job share; after a restart, less what is stored."""
        budget = self._budgets.get(record.uid)
        if budget is None:
            stored = self._store.text_size(record.spec.project, record.spec.job_id)
            budget = self._budgets[record.uid] = JobBudget(max(self._limit.job_bytes - stored, 0))
        return budget

    def _follow(self, container: str, batch: LogBatch) -> None:
        whole = False
        try:
            while not whole and not self._stopping.is_set():
                # Asked before reading: only a log that is read after the exit is known to be whole.
                with self._lock:
                    ended = container in self._exited or container not in self._present
                read = self._read(container, batch, is_last=ended)
                whole = ended and read
                if whole:
                    batch.finish()
                else:
                    self._stopping.wait(_SETTLE_SECONDS if read else _RETRY_SECONDS)
        finally:
            with self._lock:
                del self._batches[container]
                if whole:
                    self._drained.add(container)
            self._on_drained()

    def _read(self, container: str, batch: LogBatch, *, is_last: bool) -> bool:
        """
        Store what there is until the stream ends; whether the engine could be asked.

        :param is_last: nothing more will come, so that a line without an end counts; before, it would be
            stored cut.
        """
        batch.rewind()
        try:
            for line in self._engine.read_logs(container, batch.since_ns, follow=not is_last):
                if line.is_whole or is_last:
                    batch.add(line)
                if self._stopping.is_set():
                    break
        except EngineUnavailable:
            return False
        except EngineError as error:
            # The container is gone and its log with it: there is nothing left to wait for.
            logger.warning("log lost", container=container, reason=str(error))
        finally:
            batch.flush()
        return True

    def _flush_forever(self) -> None:
        while not self._stopping.is_set():
            self._work.wait()
            with self._lock:
                batches = list(self._batches.values())
                if not batches:
                    self._work.clear()
            for batch in batches:
                self._flush(batch)
            self._stopping.wait(_FLUSH_SECONDS)

    @staticmethod
    def _flush(batch: LogBatch) -> None:
        try:
            batch.flush()
        except sa.exc.SQLAlchemyError as error:
            # The batch keeps its lines; this thread serves all jobs and must outlive one busy moment.
            logger.error("log not stored, trying again", reason=str(error))
