"""
What trainers of one machine report through ``cloudml-hypertune``, into a ``ReportSink``.

One thread looks after the folders of all streams: it is told when a trainer is about to write
(``metric_spool.py``), and passes on what has been read ten times a second. What is not yet stored is on disk,
so that after a crash the next process finds it.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from training_api.errors import EngineError
from training_api.job.tuning.metric_file import MetricFile
from training_service.intake.lease import BreakSignal
from training_service.intake.metric_spool import MetricSpool
from training_service.intake.metric_stream import (
    MAX_REPORTS,
    PlacedReport,
    ReportSink,
    SinkUnavailable,
    StreamName,
)

_FLUSH_SECONDS = 0.1
_FLUSH_REPORTS = 50
#: What is stored in one go: trainers that report meanwhile wait for its end.
_BATCH_REPORTS = 1000
#: How often folders are looked at whose trainer is not held up, or has a file open.
_CLOSE_SECONDS = 0.02
#: How often those whose trainer may have removed the file that it should write.
_LOOK_SECONDS = 0.2
_IDLE_SECONDS = 5.0

logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Stream:
    """
    The reports of one run of a replica.

    :param file: ``None``: what is stored of it is not known yet, so nothing is read.
    :param is_unreadable: the newest look failed: its end is not waited for.
    """

    name: StreamName
    spool: MetricSpool
    file: MetricFile | None = None
    sequence: int = 0
    unstored: list[PlacedReport] = field(default_factory=list)
    is_ended: bool = False
    is_drained: bool = False
    is_unreadable: bool = False
    said: set[str] = field(default_factory=set)


class MetricReader:
    """
    Reads the streams that are opened; safe for threads.

    :param root: folder of all folders that containers write to, on their machine.
    :param on_drained: called when a stream's last report is stored.
    """

    def __init__(self, root: Path, sink: ReportSink, on_drained: Callable[[], None]) -> None:
        self._root = root
        self._sink = sink
        self._on_drained = on_drained
        self._signal = BreakSignal()
        #: Held while all folders are looked at, which takes a while: the loop never waits for it.
        self._lock = threading.Lock()
        self._streams: dict[StreamName, _Stream] = {}
        #: Guards the streams of which the end was seen.
        self._ended_lock = threading.Lock()
        self._ended: set[StreamName] = set()
        self._stopping = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self, job_uids: Iterable[str]) -> None:
        """
        Start the thread; remove folders of jobs other than ``job_uids``.

        Those are the jobs that have not ended.
        """
        self._make_root()
        keep = set(job_uids)
        for uid in self.job_uids():
            if uid not in keep:
                _remove_folder(self._root / uid)
        self._begin()

    def adopt(self) -> None:
        """Start the thread; open the folders that are there, so that trainers are read from now on."""
        self._make_root()
        self._begin()
        for uid in self.job_uids():
            for folder in (self._root / uid).iterdir():
                if name := StreamName.of_folder(uid, folder.name):
                    try:
                        self.open(name)
                    except (EngineError, ValueError) as error:
                        # A folder that a trainer has spoilt must not leave the others unread.
                        logger.warning("metric folder not opened", path=str(folder), reason=str(error))

    def stop(self) -> None:
        """End the reading: trainers go on, and what they report is read by the next process."""
        self._stopping.set()
        self._signal.wake()
        if self._ready.is_set():
            self._thread.join(timeout=10)
        with self._lock:
            for stream in self._streams.values():
                stream.spool.close()
            self._streams.clear()

    def open(self, stream: StreamName, machine: str = "") -> str:
        """
        Make the folder of a run that is about to start; call it before each start.

        :return: absolute path of what the container is to see as ``METRIC_FOLDER``.
        :raises EngineError: the folder cannot be made.
        """
        try:
            with self._lock:
                return str(self._open(stream).spool.mount)
        except OSError as error:
            raise EngineError(f"the folder for its metrics cannot be made: {error}") from error

    def follow(self, stream: StreamName, machine: str = "", *, has_ended: bool) -> None:
        """Make sure that the stream of a container is read; returns at once."""
        if stream not in self._streams:
            # Found by a process that has just started; others are opened before the container is.
            with self._lock:
                self._open(stream)
        with self._ended_lock:
            if not has_ended or stream in self._ended:
                return
            self._ended.add(stream)
        self._signal.wake()

    @property
    def drained(self) -> frozenset[StreamName]:
        """Streams that have ended and are stored to the last report."""
        return frozenset(name for name, stream in list(self._streams.items()) if stream.is_drained)

    @property
    def opened(self) -> frozenset[StreamName]:
        """Streams whose folders are there."""
        return frozenset(self._streams)

    def job_uids(self) -> list[str]:
        """Return the jobs that have a folder."""
        return sorted(folder.name for folder in self._root.iterdir())

    def remove(self, job_uid: str) -> None:
        """Remove a job's folders, once its containers are gone."""
        with self._lock:
            for name in [name for name in self._streams if name.job_uid == job_uid]:
                self._streams.pop(name).spool.close()
            _remove_folder(self._root / job_uid)
        with self._ended_lock:
            self._ended = {name for name in self._ended if name.job_uid != job_uid}

    def _make_root(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        self._root.chmod(0o700)

    def _begin(self) -> None:
        self._thread.start()
        self._ready.wait()

    def _open(self, name: StreamName) -> _Stream:
        if name not in self._streams:
            folder = (self._root / name.folder).absolute()
            stream = _Stream(name, MetricSpool(folder, self._signal.thread_id))
            stream.spool.turn()
            self._streams[name] = stream
            self._signal.wake()
        return self._streams[name]

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
        with self._ended_lock:
            ended = list(self._ended)
        for name in ended:
            if name in self._streams:
                self._streams[name].is_ended = True

    @staticmethod
    def _pause(streams: Iterable[_Stream]) -> float:
        pauses = [
            _FLUSH_SECONDS
            if stream.unstored
            else _LOOK_SECONDS
            if stream.file is None or (stream.spool.is_leased and not stream.spool.is_waiting)
            else _CLOSE_SECONDS
            for stream in streams
        ]
        return min(pauses, default=_IDLE_SECONDS)

    def _look(self, stream: _Stream) -> None:
        """
        Read what is new.

        An error in one stream's folder must not stop the others.
        """
        try:
            if not stream.is_ended:
                stream.spool.turn()
            file = stream.file or self._resume(stream)
            if file is None:
                return
            contents = stream.spool.read(is_ended=stream.is_ended)
            stream.is_unreadable = False
        except OSError as error:
            stream.is_unreadable = True
            self._warn(
                stream, f"The file of metrics cannot be read: {error}; the trainer should only write to it."
            )
            return
        except Exception:
            logger.exception("look at the metrics of a container failed", job_uid=stream.name.job_uid)
            return
        for content in contents:
            self._add(stream, file, content)

    def _resume(self, stream: _Stream) -> MetricFile | None:
        """Ask what is stored of the stream; ``None``: it is not known yet."""
        try:
            known = self._sink.known(stream.name)
        except SinkUnavailable as error:
            logger.debug("stored metrics not known, trying again", reason=str(error))
            return None
        stream.file = MetricFile(known=known.newest)
        stream.sequence = known.next_sequence
        return stream.file

    def _add(self, stream: _Stream, file: MetricFile, content: bytes) -> None:
        look = file.look(content)
        if look.has_gap:
            self._warn(stream, _GAP)
        if look.broken:
            self._warn(stream, _BROKEN)
        for report in look.new[: max(MAX_REPORTS - stream.sequence, 0)]:
            stream.unstored.append(PlacedReport(sequence=stream.sequence, report=report))
            stream.sequence += 1
        if stream.sequence >= MAX_REPORTS:
            self._warn(stream, f"Only the first {MAX_REPORTS} reports of metrics are kept.")

    def _flush(self, streams: Iterable[_Stream]) -> None:
        streams = [stream for stream in streams if stream.file is not None]
        waiting = streams
        try:
            while batch := _batch_of(waiting):
                stored = self._sink.store(batch)
                for stream in waiting:
                    del stream.unstored[: stored.get(stream.name, 0)]
                # One that is not taken now must not keep the others from their turn.
                waiting = [one for one in waiting if stored.get(one.name, 0) == len(batch.get(one.name, ()))]
        except SinkUnavailable as error:
            # They are kept; this thread serves all trainers and must outlive one busy moment.
            logger.error("metrics not stored, trying again", reason=str(error))
            return
        any_drained = False
        for stream in streams:
            if stream.unstored:
                continue
            stream.spool.discard()
            if stream.is_ended and (stream.is_unreadable or not stream.spool.is_waiting):
                stream.is_drained = any_drained = True
        if any_drained:
            self._on_drained()

    def _warn(self, stream: _Stream, message: str) -> None:
        if message not in stream.said:
            stream.said.add(message)
            self._sink.warn(stream.name, message)


def _batch_of(streams: Iterable[_Stream]) -> dict[StreamName, list[PlacedReport]]:
    """Return the next reports to be stored, oldest first, of as many streams as fit."""
    batch: dict[StreamName, list[PlacedReport]] = {}
    room = _BATCH_REPORTS
    for stream in streams:
        if room and stream.unstored:
            batch[stream.name] = stream.unstored[:room]
            room -= len(batch[stream.name])
    return batch


_GAP = (
    "Reports of metrics were lost: the trainer reported more than 100 times while nobody read them, "
    "and cloudml-hypertune keeps the newest 100."
)
_BROKEN = (
    "The file of metrics has lines that are no reports of cloudml-hypertune (one JSON object a line: the "
    "tag with its value, global_step and timestamp); they are left out."
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
