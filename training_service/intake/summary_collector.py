"""
What TensorFlow trainers write into summary files, into the store.

One thread looks into the job directories of the trials that run, every few seconds, and once more when one
has ended. A file's scalars are numbered from its beginning, so that what is read again after a crash is
stored once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

import sqlalchemy as sa
import structlog

from container_engines.base import ObservedReplica
from training_api.job.cluster import ReplicaRole
from training_api.job.job_spec import JobSpec
from training_api.states import ReplicaState
from training_service.access.bucket_access import BucketRefused
from training_service.intake.cloud_storage import Objects, StorageUnavailable
from training_service.intake.metric_stream import MAX_REPORTS
from training_service.intake.summary_files import SummaryFiles
from training_service.model.records import JobRecord
from training_service.store.measurement_store import Measurement, MeasurementStore

_POLL_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_BATCH = 1000
#: How long the end of a trial waits for an object store that does not answer.
_PATIENCE_SECONDS = 60.0

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Trial:
    record: JobRecord
    job_dir: str
    #: ``None``: to be read from the beginning.
    files: SummaryFiles | None = None
    is_refused: bool = False
    containers: set[str] = field(default_factory=set)
    ended: dict[str, float] = field(default_factory=dict)
    taken: int = 0


class SummaryCollector:
    """
    Reads the summary files of the trials that it is shown; safe for threads.

    :param on_drained: called when what a container has written is stored.
    :param note: writes a warning to the job's log.
    :param check_bucket: raises ``BucketRefused`` where the job may not have the bucket read. It is asked when
        the reading of a trial begins.
    """

    def __init__(
        self,
        objects: Objects,
        store: MeasurementStore,
        on_drained: Callable[[], None],
        *,
        note: Callable[[JobRecord, str], None],
        check_bucket: Callable[[JobSpec, str], None],
        poll_seconds: float = _POLL_SECONDS,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._objects = objects
        self._store = store
        self._on_drained = on_drained
        self._note = note
        self._check_bucket = check_bucket
        self._poll_seconds = poll_seconds
        self._patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._trials: dict[str, _Trial] = {}
        self._drained: set[str] = set()
        self._wake = threading.Event()
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="summaries", daemon=True).start()

    def stop(self) -> None:
        """End the reading; the next service reads all files from their beginning."""
        self._stopping.set()
        self._wake.set()

    @property
    def drained(self) -> frozenset[str]:
        """Containers that have ended and are fully stored, or whose job writes no summaries."""
        with self._lock:
            return frozenset(self._drained)

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the files of the container's trial are read; returns at once."""
        container = observed.container_id
        job_dir = record.spec.output_dir
        # Only the master's end is waited for: it decides when the trial has ended.
        is_read = observed.replica.role is ReplicaRole.MASTER and record.trial is not None
        with self._lock:
            if container in self._drained:
                return
            if not is_read or not job_dir.startswith("gs://"):
                self._drained.add(container)
                return
            trial = self._trials.get(record.uid)
            if trial is None:
                trial = self._trials[record.uid] = _Trial(record, job_dir)
            trial.containers.add(container)
            if observed.state is not ReplicaState.EXITED or container in trial.ended:
                return
            trial.ended[container] = time.monotonic()
        self._wake.set()

    def forget(self, present: set[str]) -> None:
        """Drop what is known of containers that are no longer ``present``."""
        with self._lock:
            self._drained &= present
            for uid, trial in list(self._trials.items()):
                trial.containers &= present
                if not trial.containers:
                    del self._trials[uid]

    def _run(self) -> None:
        polled_at = 0.0
        while not self._stopping.is_set():
            self._wake.clear()
            is_due = time.monotonic() - polled_at >= self._poll_seconds
            with self._lock:
                # Asked before reading: only what is read after the end is known to be whole.
                due = [
                    (trial, set(trial.ended) - self._drained)
                    for trial in self._trials.values()
                    if (is_due and trial.containers - self._drained) or set(trial.ended) - self._drained
                ]
            if is_due:
                polled_at = time.monotonic()
            unread = [trial for trial, ended in due if not self._look(trial, ended)]
            self._wake.wait(min(_RETRY_SECONDS, self._poll_seconds) if unread else self._poll_seconds)

    def _look(self, trial: _Trial, ended: Iterable[str]) -> bool:
        """Store what is new, and forget containers that had ``ended``; tell if nothing failed."""
        try:
            self._store_new(trial)
        except (StorageUnavailable, sa.exc.SQLAlchemyError) as error:
            trial.files = None  # nobody knows how much of what was read is stored
            now = time.monotonic()
            late = [container for container in ended if now - trial.ended[container] > self._patience_seconds]
            if late:
                self._note(trial.record, f"The summary files of the trial could not be read: {error}")
                self._let_go(late)
            logger.warning("summaries not read, trying again", job_uid=trial.record.uid, reason=str(error))
            return not set(ended) - set(late)
        except Exception:
            # Whatever a trainer wrote, the thread serves all trials, and no trial may wait for ever.
            trial.files = None
            logger.exception("reading summaries failed", job_uid=trial.record.uid)
        self._let_go(ended)
        return True

    def _store_new(self, trial: _Trial) -> None:
        if trial.is_refused:
            return
        if trial.files is None:
            files = SummaryFiles(self._objects, trial.job_dir)
            try:
                self._check_bucket(trial.record.spec, files.bucket)
            except BucketRefused as error:
                self._note(trial.record, f"The summary files of the trial are not read: {error}")
                trial.is_refused = True
                return
            trial.files, trial.taken = files, 0
        found = trial.files.look()
        while batch := list(islice(found, _BATCH)):
            room = max(MAX_REPORTS - trial.taken, 0)
            trial.taken += len(batch)
            self._store.append(
                [
                    Measurement(
                        job_uid=trial.record.uid,
                        source=one.source,
                        sequence=one.sequence,
                        report=one.report,
                    )
                    for one in batch[:room]
                ]
            )
        while trial.files.broken:
            self._note(trial.record, f"Not all of a summary file can be read: {trial.files.broken.pop()}")

    def _let_go(self, containers: Iterable[str]) -> None:
        containers = set(containers)
        if containers:
            with self._lock:
                self._drained |= containers
            self._on_drained()
