"""
One container's lines on their way into the store.

A line's insert id is its nanosecond timestamp and its place among the lines of that instant: reading a
stretch of the log twice stores it once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict

from container_engines.base import LogLine
from training_api.dialects.ml_v1.log_wire import Severity
from training_api.dialects.ml_v1.resources import format_timestamp
from training_service.intake.log_limiter import (
    LOSS_SUFFIX,
    WINDOW_SECONDS,
    JobBudget,
    Kept,
    LogLimit,
    LogLimiter,
    Loss,
    PlacedLine,
)
from training_service.intake.log_lines import read_payload
from training_service.store.database import from_us
from training_service.store.log_store import LogSource, LogStore, NewLogEntry

#: A full batch is stored by the reader itself, which so waits for the store.
_BATCH_LINES = 1000
_BATCH_BYTES = 4 << 20
#: The engine's two output copiers stamp lines before they queue for the file: neighbours may stand the wrong
#: way round.
_OVERLAP_NS = 10_000_000
#: A flood whose trainer says nothing for so long has paused: its last lines are shown.
_PAUSE_SECONDS = 1.0
_NS_PER_US = 1000


class LogBatch:
    """
    Lines that are read but not stored; ``add`` and ``flush`` may be called from two threads.

    :param on_loss: called for every loss that is stored.
    """

    def __init__(
        self,
        store: LogStore,
        source: LogSource,
        *,
        limit: LogLimit | None = None,
        budget: JobBudget | None = None,
        on_loss: Callable[[Loss], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._source = source
        self._fields = asdict(source)
        self._limit = limit or LogLimit()
        self._limiter = LogLimiter(self._limit, budget or JobBudget(self._limit.job_bytes))
        self._on_loss = on_loss
        self._lock = threading.Lock()
        self._entries: list[NewLogEntry] = []
        self._size = 0
        self._added_at = time.monotonic()
        self._newest_ns = -1
        self._instant_ns = -1
        self._place = 0
        self._shown_us = 0
        self._read_from_ns = 0
        self._dropped_up_to = ""
        #: What was taken within the overlap: it is read again after each ``rewind``.
        self._taken: set[str] = set()
        self._taken_order: deque[tuple[int, str]] = deque()

    @property
    def since_ns(self) -> int:
        """Where reading has to begin so that nothing is missed."""
        return max(self._newest_ns - _OVERLAP_NS, 0)

    def rewind(self) -> None:
        """Call it before each new read of the log: reading goes on a little before the newest line."""
        self.flush()
        self._instant_ns = -1
        if self._newest_ns < 0:
            self._go_on_from_the_store()
        self._read_from_ns = self.since_ns

    def _go_on_from_the_store(self) -> None:
        newest = self._store.newest_insert_id(self._source)
        if newest is None:
            return
        self._newest_ns = _instant(newest)
        self._shown_us = self._newest_ns // _NS_PER_US
        for insert_id in self._store.insert_ids_since(self._source, _insert_id(self.since_ns, 0)):
            self._remember(_instant(insert_id), insert_id)
            if insert_id.endswith(LOSS_SUFFIX):
                self._dropped_up_to = insert_id  # what is older and not stored was counted in this loss

    def add(self, line: LogLine) -> None:
        """Take ``line``, unless it was taken before; stores the batch when it is full."""
        at_ns = line.timestamp_ns
        self._place = self._place + 1 if at_ns == self._instant_ns else 0
        self._instant_ns = at_ns
        insert_id = _insert_id(at_ns, self._place, self._source.trial_id)
        if at_ns < self._read_from_ns or insert_id in self._taken or insert_id < self._dropped_up_to:
            return
        self._newest_ns = max(self._newest_ns, at_ns)
        self._remember(at_ns, insert_id)
        placed = PlacedLine(insert_id=insert_id, line=line, size=len(line.text.encode()))
        with self._lock:
            self._added_at = time.monotonic()
            self._take(self._limiter.offer(placed))
            is_full = len(self._entries) >= _BATCH_LINES or self._size >= _BATCH_BYTES
        if is_full:
            self.flush()

    def flush(self) -> None:
        """Store what has been taken so far; the end of a flood, too, when it seems to have paused."""
        with self._lock:
            if self._limiter.is_holding and time.monotonic() - self._added_at > _PAUSE_SECONDS:
                self._take(self._limiter.pause())
            self._store_all()

    def finish(self) -> None:
        """Nothing more will come: store the rest."""
        with self._lock:
            self._take(self._limiter.end())
            self._store_all()

    def _store_all(self) -> None:
        if self._entries:
            self._store.append(self._entries)
            self._entries = []
            self._size = 0

    def _take(self, kept: Sequence[Kept]) -> None:
        for one in kept:
            if isinstance(one, Loss):
                self._entries.append(self._loss_entry(one))
                self._on_loss(one)
            else:
                self._entries.append(self._line_entry(one))
                self._size += one.size

    def _line_entry(self, placed: PlacedLine) -> NewLogEntry:
        # Times never run backwards within a replica, so (timestamp, insertId) is the order of plain lines.
        received_at = from_us(self._monotonic_us(placed.line.timestamp_ns))
        payload = read_payload(placed.line.text, placed.line.stream, received_at)
        return NewLogEntry(
            **self._fields,
            insert_id=placed.insert_id,
            timestamp=payload.timestamp,
            severity=payload.severity,
            text=payload.text,
            json_payload=payload.json_payload,
        )

    def _loss_entry(self, loss: Loss) -> NewLogEntry:
        return NewLogEntry(
            **self._fields,
            insert_id=loss.insert_id,
            timestamp=from_us(self._monotonic_us(loss.last_ns)),
            severity=Severity.WARNING,
            text=_loss_text(loss, self._limit),
        )

    def _monotonic_us(self, at_ns: int) -> int:
        self._shown_us = max(self._shown_us, at_ns // _NS_PER_US)
        return self._shown_us

    def _remember(self, at_ns: int, insert_id: str) -> None:
        self._taken.add(insert_id)
        self._taken_order.append((at_ns, insert_id))
        while self._taken_order[0][0] < self.since_ns:
            self._taken.remove(self._taken_order.popleft()[1])


def _insert_id(at_ns: int, place: int, trial_id: str = "") -> str:
    """
    Return an id that orders a replica's lines.

    It tells them apart from those of other trials of the same nanosecond.
    """
    return f"{at_ns:020d}-{place:06d}" + (f"-trial{trial_id}." if trial_id else "")


def _instant(insert_id: str) -> int:
    """Return the nanosecond of an insert id, also of a loss."""
    return int(insert_id[:20])


def _loss_text(loss: Loss, limit: LogLimit) -> str:
    why = (
        f"the job has written more than {limit.job_bytes} bytes (setting TRAINING_LOG_JOB_BYTES)"
        if loss.is_job_limit
        else f"more than {limit.lines_per_second * WINDOW_SECONDS} lines or "
        f"{limit.bytes_per_second * WINDOW_SECONDS} bytes in {WINDOW_SECONDS} s "
        "(settings TRAINING_LOG_LINES_PER_SECOND, TRAINING_LOG_BYTES_PER_SECOND)"
    )
    if loss.is_announcement:
        return f"From here on only the last {limit.tail_lines} lines of this replica are kept: {why}."
    first, last = (format_timestamp(from_us(at_ns // _NS_PER_US)) for at_ns in (loss.first_ns, loss.last_ns))
    return f"At least {loss.lines} lines ({loss.size} bytes) were dropped here, written from {first} to {last}: {why}."
