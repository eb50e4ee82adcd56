"""
One container's lines on their way into the store.

A line's insert id is its nanosecond timestamp and its place among the lines of that instant: reading a stretch of the
log twice stores it once.
"""

from __future__ import annotations

import threading

from container_training.core.log_wire import Severity
from training_service.database import from_us, to_us
from training_service.engine.base import LogLine, LogStream
from training_service.log_store import LogStore, NewLogEntry

#: A full batch is stored by the reader itself, which so waits for the store.
_BATCH_LINES = 1000
#: The engine's two output copiers stamp lines before they queue for the file: neighbours may stand the wrong way round.
_OVERLAP_NS = 10_000_000
#: The Logging API takes entries up to 256 KB; a longer line is cut, and says so.
MAX_TEXT_CHARACTERS = 200_000
_NS_PER_US = 1000
#: As AI Platform Training shows them: standard error is ERROR, standard output INFO.
_SEVERITY = {LogStream.STDOUT: Severity.INFO, LogStream.STDERR: Severity.ERROR}


class LogBatch:
    """Lines that are read but not stored; ``add`` and ``flush`` may be called from two threads."""

    def __init__(self, store: LogStore, project: str, job_id: str, task_name: str) -> None:
        self._store = store
        self._key = (project, job_id, task_name)
        self._lock = threading.Lock()
        self._lines: list[NewLogEntry] = []
        self._newest_us = 0
        self._instant_ns = -1
        self._place = 0

    @property
    def since_ns(self) -> int:
        """Where reading has to begin so that nothing is missed."""
        return max(self._newest_us * _NS_PER_US - _OVERLAP_NS, 0)

    def rewind(self) -> None:
        """Go back to the newest stored line; call it before each new read of the log."""
        self.flush()
        newest = self._store.last_timestamp(*self._key)
        self._newest_us = to_us(newest) if newest else 0
        self._instant_ns = -1

    def add(self, line: LogLine) -> None:
        """Take ``line``; stores the batch when it is full."""
        self._place = self._place + 1 if line.timestamp_ns == self._instant_ns else 0
        self._instant_ns = line.timestamp_ns
        # Times never run backwards within a replica, so (timestamp, insertId) is the order of the lines.
        self._newest_us = max(self._newest_us, line.timestamp_ns // _NS_PER_US)
        project, job_id, task_name = self._key
        entry = NewLogEntry(
            project=project,
            job_id=job_id,
            task_name=task_name,
            insert_id=f"{line.timestamp_ns:020d}-{self._place:06d}",
            timestamp=from_us(self._newest_us),
            severity=_SEVERITY[line.stream],
            text=_cut(line.text),
        )
        with self._lock:
            self._lines.append(entry)
            full = len(self._lines) >= _BATCH_LINES
        if full:
            self.flush()

    def flush(self) -> None:
        """Store what has been taken so far."""
        with self._lock:
            if self._lines:
                self._store.append(self._lines)
                self._lines = []


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    return f"{text[:MAX_TEXT_CHARACTERS]} [cut: {len(text)} characters]"
