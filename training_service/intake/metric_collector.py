"""
What trainers report through ``cloudml-hypertune``, into the store.

One thread looks after the folders of all trials: it is told when a trainer is about to write
(``metric_spool.py``), and stores what has been read ten times a second. What is not yet stored is on disk, so
that after a crash of the service the next one finds it.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa
import structlog

from container_engines.base import Engine, ObservedReplica
from training_api.errors import EngineError, FieldViolation, InvalidJobSpec
from training_api.job.cluster import ReplicaId, ReplicaRole
from training_api.job.job_spec import JobSpec
from training_api.job.restarts import Attempt
from training_api.job.tuning.metric_file import KNOWN_REPORTS, MetricFile
from training_api.states import ReplicaState
from training_service.intake.lease import BreakSignal
from training_service.intake.metric_spool import MetricSpool
from training_service.model.records import JobRecord
from training_service.store.measurement_store import Measurement, MeasurementStore

_FLUSH_SECONDS = 0.1
_FLUSH_REPORTS = 50
#: How often folders are looked at whose trainer is not held up, or has a file open.
_CLOSE_SECONDS = 0.02
#: How often those whose trainer may have removed the file that it should write.
_LOOK_SECONDS = 0.2
_IDLE_SECONDS = 5.0
#: What one run of a trial may report; the rest is left out, so that no trainer fills the database.
MAX_REPORTS = 1_000_000

logger = structlog.get_logger(__name__)

#: A job's uid, and which run of its master.
_Key = tuple[str, str]


@dataclass(slots=True)
class _Stream:
    """The reports of one run of a trial's master."""

    record: JobRecord
    source: str
    spool: MetricSpool
    file: MetricFile
    sequence: int
    unstored: list[Measurement] = field(default_factory=list)
    is_ended: bool = False
    is_drained: bool = False
    said: set[str] = field(default_factory=set)


class MetricCollector:
    """
    Reads the metrics of the jobs that it is shown; safe for threads.

    :param root: folder of all folders that containers write to, on the engine's own machine.
    :param on_drained: called when a container's last report is stored.
    :param note: writes a warning to the job's log.
    :param reads_all: read also the reports of jobs that are no trials; nobody but people looks at them.
    """

    def __init__(
        self,
        root: Path,
        store: MeasurementStore,
        on_drained: Callable[[], None],
        *,
        note: Callable[[JobRecord, str], None],
        reads_all: bool = False,
    ) -> None:
        self._root = root
        self._store = store
        self._on_drained = on_drained
        self._note = note
        self._reads_all = reads_all
        self._signal = BreakSignal()
        #: Held while all folders are looked at, which takes a while: the loop never waits for it.
        self._lock = threading.Lock()
        self._streams: dict[_Key, _Stream] = {}
        #: Guards what the loop writes: which containers there are, and of which streams the end was seen.
        self._seen_lock = threading.Lock()
        self._containers: dict[str, _Key | None] = {}
        self._ended: set[_Key] = set()
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self, job_uids: Iterable[str] = ()) -> None:
        """
        Start the thread; remove folders of jobs other than ``job_uids``.

        Those are the jobs that have not ended.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        self._root.chmod(0o700)
        keep = set(job_uids)
        for folder in self._root.iterdir():
            if folder.name not in keep:
                _remove_folder(folder)
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """End the reading: trainers go on, and what they report is read by the next service."""
        self._stopping.set()
        self._signal.wake()
        if self._ready.is_set():
            self._thread.join(timeout=10)
        with self._lock:
            for stream in self._streams.values():
                stream.spool.close()
            self._streams.clear()

    def prepare(self, record: JobRecord, replica: ReplicaId) -> str:
        """
        Make the folder of a replica that is about to start; call it before each start.

        :return: absolute path of what the container is to see as ``METRIC_FOLDER``; empty: it reports no
            metrics.
        :raises EngineError: the folder cannot be made.
        """
        if not self._reports(record, replica):
            return ""
        try:
            with self._lock:
                return str(self._open(record, replica, record.attempts.of(replica)).spool.mount)
        except OSError as error:
            raise EngineError(f"the folder for its metrics cannot be made: {error}") from error

    @property
    def drained(self) -> frozenset[str]:
        """Containers whose reports are stored to the last, and those that report nothing."""
        with self._seen_lock:
            return frozenset(
                container
                for container, key in self._containers.items()
                if key is None or ((stream := self._streams.get(key)) and stream.is_drained)
            )

    def follow(self, record: JobRecord, observed: ObservedReplica) -> None:
        """Make sure that the container's reports are read; returns at once."""
        container = observed.container_id
        if not self._reports(record, observed.replica):
            with self._seen_lock:
                self._containers[container] = None
            return
        key = (record.uid, str(observed.attempt))
        if key not in self._streams:
            # Found by a service that has just started; others are opened before the container is.
            with self._lock:
                self._open(record, observed.replica, observed.attempt)
        with self._seen_lock:
            self._containers[container] = key
            if observed.state is not ReplicaState.EXITED or key in self._ended:
                return
            self._ended.add(key)
        self._signal.wake()

    def forget(self, present: set[str]) -> None:
        """Drop what is known of containers that are no longer ``present``."""
        with self._seen_lock:
            self._containers = {key: name for key, name in self._containers.items() if key in present}

    def remove(self, job_uid: str) -> None:
        """Remove a job's folders, once its containers are gone."""
        with self._lock:
            for key in [key for key in self._streams if key[0] == job_uid]:
                self._streams.pop(key).spool.close()
            _remove_folder(self._root / job_uid)
        with self._seen_lock:
            self._containers = {
                name: key for name, key in self._containers.items() if key is None or key[0] != job_uid
            }
            self._ended = {key for key in self._ended if key[0] != job_uid}

    def _reports(self, record: JobRecord, replica: ReplicaId) -> bool:
        return replica.role is ReplicaRole.MASTER and (record.trial is not None or self._reads_all)

    def _open(self, record: JobRecord, replica: ReplicaId, attempt: Attempt) -> _Stream:
        source = str(attempt)
        key = (record.uid, source)
        if key not in self._streams:
            folder = (self._root / record.uid / f"{replica.task_name}-{source}").absolute()
            known = self._store.newest(record.uid, source, KNOWN_REPORTS)
            stream = self._streams[key] = _Stream(
                record=record,
                source=source,
                spool=MetricSpool(folder, self._signal.thread_id),
                file=MetricFile(known=(one.report for one in known)),
                sequence=known[-1].sequence + 1 if known else 0,
            )
            stream.spool.turn()
            self._signal.wake()
        return self._streams[key]

    def _run(self) -> None:
        self._signal.enter()
        self._ready.set()
        flushed_at = 0.0
        while not self._stopping.is_set():
            pause = _LOOK_SECONDS
            try:
                with self._lock:
                    self._mark_ended()
                    streams = [stream for stream in self._streams.values() if not stream.is_drained]
                    for stream in streams:
                        self._look(stream)
                    is_due = time.monotonic() - flushed_at >= _FLUSH_SECONDS
                    unstored = sum(len(stream.unstored) for stream in streams)
                    if is_due or unstored >= _FLUSH_REPORTS or any(stream.is_ended for stream in streams):
                        self._flush(streams)
                        flushed_at = time.monotonic()
                    pause = self._pause(streams)
            except Exception:
                # Trainers wait for this thread: it must outlive a bug in one look; the trace is in the log.
                logger.exception("look at the metrics failed")
            self._signal.wait(pause)

    def _mark_ended(self) -> None:
        """
        Note which streams have ended, before they are looked at.

        What is read from now on is the last.
        """
        with self._seen_lock:
            ended = list(self._ended)
        for key in ended:
            if key in self._streams:
                self._streams[key].is_ended = True

    @staticmethod
    def _pause(streams: Iterable[_Stream]) -> float:
        pauses = [
            _FLUSH_SECONDS
            if stream.unstored
            else _LOOK_SECONDS
            if stream.spool.is_leased and not stream.spool.is_waiting
            else _CLOSE_SECONDS
            for stream in streams
        ]
        return min(pauses, default=_IDLE_SECONDS)

    def _look(self, stream: _Stream) -> None:
        """
        Read what is new.

        An error in one trial's folder must not stop the others.
        """
        try:
            if not stream.is_ended:
                stream.spool.turn()
            contents = stream.spool.read(is_ended=stream.is_ended)
        except OSError as error:
            self._warn(
                stream, f"The file of metrics cannot be read: {error}; the trainer should only write to it."
            )
            return
        except Exception:
            logger.exception("look at the metrics of a container failed", job=stream.record.spec.job_id)
            return
        for content in contents:
            look = stream.file.look(content)
            if look.has_gap:
                self._warn(stream, _GAP)
            if look.broken:
                self._warn(stream, _BROKEN)
            for report in look.new[: max(MAX_REPORTS - stream.sequence, 0)]:
                stream.unstored.append(
                    Measurement(
                        job_uid=stream.record.uid,
                        source=stream.source,
                        sequence=stream.sequence,
                        report=report,
                    )
                )
                stream.sequence += 1
            if stream.sequence >= MAX_REPORTS:
                self._warn(stream, f"Only the first {MAX_REPORTS} reports of metrics are kept.")

    def _flush(self, streams: Iterable[_Stream]) -> None:
        try:
            self._store.append([one for stream in streams for one in stream.unstored])
        except sa.exc.SQLAlchemyError as error:
            # They are kept; this thread serves all trials and must outlive one busy moment.
            logger.error("metrics not stored, trying again", reason=str(error))
            return
        any_drained = False
        for stream in streams:
            stream.unstored.clear()
            stream.spool.discard()
            if stream.is_ended:
                stream.is_drained = any_drained = True
        if any_drained:
            self._on_drained()

    def _warn(self, stream: _Stream, message: str) -> None:
        if message not in stream.said:
            stream.said.add(message)
            self._note(stream.record, message)


_GAP = (
    "Reports of metrics were lost: the trainer reported more than 100 times while the training service did "
    "not run, and cloudml-hypertune keeps the newest 100."
)
_BROKEN = (
    "The file of metrics has lines that are no reports of cloudml-hypertune (one JSON object a line: the "
    "tag with its value, global_step and timestamp); they are left out."
)


def check_metrics_can_be_read(spec: JobSpec, engine: Engine) -> None:
    """
    Let a job pass unless its trials would run where nobody reads their metrics.

    :raises InvalidJobSpec: they would.
    """
    if spec.study and not engine.can_read_metrics:
        raise InvalidJobSpec(
            [
                FieldViolation(
                    field="study",
                    description="tuning needs an engine on the machine of the service, which reads the metrics of trials from a "
                    "folder; this service uses a swarm, or an engine on another machine",
                )
            ]
        )


def _remove_folder(folder: Path) -> None:
    """
    Remove what a container may have written to.

    What this user may not remove stays, and is logged. By ``rm``, which goes by descriptors and without
    recursion: Python's own removal fails on a folder that is a thousand levels deep.
    """
    done = subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", folder], check=False, capture_output=True, text=True
    )
    if done.returncode:
        logger.warning("metric folder not removed", path=str(folder), reason=done.stderr.strip()[:1000])
