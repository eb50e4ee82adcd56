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
from datetime import datetime
from itertools import chain

from container_engines.base import LogLine
from training_api.cloud_logging import Severity
from training_api.wire import format_timestamp
from training_service.intake.log_limiter import (
    END_SUFFIX,
    LOSS_SUFFIX,
    TAIL_BYTES,
    WINDOW_SECONDS,
    JobBudget,
    Kept,
    LogLimit,
    LogLimiter,
    Loss,
    PlacedLine,
)
from training_service.intake.log_lines import read_payload
from training_service.intake.log_overflow import LogOverflow
from training_service.store.database import from_us
from training_service.store.logs.insert_ids import make_insert_id
from training_service.store.logs.log_store import LogSource, LogStore, NewLogEntry

#: A full batch is stored by the reader itself, which so waits for the store.
_BATCH_LINES = 1000
_BATCH_BYTES = 4 << 20
#: What an entry takes in memory beside its text.
_ENTRY_BYTES = 500
#: The engine's two output copiers stamp lines before they queue for the file: neighbours may stand the wrong
#: way round.
_OVERLAP_NS = 10_000_000
#: A flood whose trainer says nothing for so long has paused: its last lines are shown.
_PAUSE_SECONDS = 1.0
_NS_PER_US = 1000
#: Behind all lines of its instant.
_END_PLACE = 999_999


class LogBatch:
    """
    Lines that are read but not stored; ``add`` and ``flush`` may be called from two threads.

    :param started_at: when the container started.
    :param room: returns how many bytes may be held in memory now: half for lines that wait for the store,
        half for the end of a flood.
    :param on_loss: called for every loss that is stored.
    :param has_room: whether lines may be stored now; those that may not are left out, which is a loss.
    """

    def __init__(
        self,
        store: LogStore,
        source: LogSource,
        *,
        limit: LogLimit | None = None,
        budget: JobBudget | None = None,
        started_at: datetime | None = None,
        room: Callable[[], int] = lambda: _BATCH_BYTES + TAIL_BYTES,
        on_loss: Callable[[Loss], None] = lambda _: None,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._started_at = started_at
        self._store = store
        self._source = source
        self._fields = asdict(source)
        self._limit = limit or LogLimit()
        self._budget = budget or JobBudget(self._limit.job_bytes)
        self._room = room
        self._limiter = LogLimiter(self._limit, self._budget, lambda: min(TAIL_BYTES, room() // 2))
        self._on_loss = on_loss
        self._has_room = has_room
        self._overflow = LogOverflow()
        self._lock = threading.Lock()
        self._is_closed = False
        self._has_missing_end = False
        self._entries: list[NewLogEntry] = []
        #: Bytes of the entries' lines.
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
    def is_closed(self) -> bool:
        """Whether nothing is taken any more."""
        return self._is_closed

    @property
    def since_ns(self) -> int:
        """Where reading has to begin so that nothing is missed."""
        return max(self._newest_ns - _OVERLAP_NS, 0)

    def rewind(self) -> None:
        """Call it before each new read of the log: reading goes on a little before the newest line."""
        self.flush()
        # Here, and not at the first line: a line that was taken when the database fails would be lost.
        self._budget.ask()
        self._instant_ns = -1
        if self._newest_ns < 0:
            self._go_on_from_the_store()
        self._read_from_ns = self.since_ns

    def _go_on_from_the_store(self) -> None:
        before = self._store.before_takeover(self._source, self._started_at)
        sources = [self._source, before] if before else [self._source]
        newest = (self._store.newest_ns(source) for source in sources)
        self._newest_ns = next((newest_ns for newest_ns in newest if newest_ns is not None), -1)
        if self._newest_ns < 0:
            return
        self._shown_us = self._newest_ns // _NS_PER_US
        stored = (self._store.insert_ids_since(source, self.since_ns) for source in sources)
        for insert_id in sorted(chain.from_iterable(stored)):
            self._remember(_instant(insert_id), insert_id)
            if insert_id.endswith(LOSS_SUFFIX):
                self._dropped_up_to = insert_id  # what is older and not stored was counted in this loss

    def add(self, line: LogLine) -> None:
        """Take ``line``, unless it was taken before; stores the batch when it is full."""
        with self._lock:
            if self._is_closed:
                return
            self._added_at = time.monotonic()
            self._place_and_take(line)
            most_bytes = min(_BATCH_BYTES, self._room() // 2)
            held_bytes = self._size + _ENTRY_BYTES * len(self._entries)
            is_full = len(self._entries) >= _BATCH_LINES or held_bytes >= most_bytes
        if is_full:
            self.flush()

    def _place_and_take(self, line: LogLine) -> None:
        at_ns = line.timestamp_ns
        self._place = self._place + 1 if at_ns == self._instant_ns else 0
        self._instant_ns = at_ns
        insert_id = make_insert_id(at_ns, self._place, self._source.trial_id)
        if at_ns < self._read_from_ns or insert_id in self._taken or insert_id < self._dropped_up_to:
            return
        self._newest_ns = max(self._newest_ns, at_ns)
        self._remember(at_ns, insert_id)
        placed = PlacedLine(insert_id=insert_id, line=line, size=len(line.text.encode()))
        self._take(self._limiter.offer(placed))

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
            self._store_all(is_last=True)

    def close(self, *, is_end_missing: bool = False) -> None:
        """
        Store what has been taken, and take nothing more.

        :param is_end_missing: say in the log, and count, that the engine did not give its end.
        """
        with self._lock:
            if self._is_closed:
                return
            self._take(self._limiter.end())
            if is_end_missing and not self._has_missing_end:
                self._has_missing_end = True
                self._take([self._missing_end()])
            self._store_all(is_last=True)
            self._is_closed = True

    def successor(self) -> LogBatch:
        """Return a batch for another reader of the same log, which goes on from the store."""
        return LogBatch(
            self._store,
            self._source,
            limit=self._limit,
            budget=self._budget,
            started_at=self._started_at,
            room=self._room,
            on_loss=self._on_loss,
            has_room=self._has_room,
        )

    def _missing_end(self) -> Loss:
        last_ns = max(self._newest_ns, 0)
        insert_id = make_insert_id(last_ns, _END_PLACE, self._source.trial_id, END_SUFFIX)
        now_ns = time.time_ns()
        return Loss(insert_id=insert_id, lines=0, size=0, first_ns=last_ns, last_ns=now_ns, is_end=True)

    def _store_all(self, *, is_last: bool = False) -> None:
        """
        Store what has been taken; while there is no room, leave it out.

        :param is_last: nothing more will come: say what was left out, however little room there is.
        """
        if not self._entries and not self._overflow.loss:
            return
        if not self._has_room():
            self._leave_out()
            if not is_last:
                return
        told = [self._loss_entry(self._overflow.loss)] if self._overflow.loss else []
        if entries := [*told, *self._entries]:
            self._store.append(entries)
        self._overflow.clear()
        self._entries, self._size = [], 0

    def _leave_out(self) -> None:
        ends = [entry for entry in self._entries if entry.insert_id.endswith(END_SUFFIX)]
        lost = self._overflow.add([entry for entry in self._entries if entry not in ends], self._size)
        self._entries, self._size = ends, 0
        if lost:
            self._on_loss(lost)

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
            # The lines after a full disk are already taken: theirs are later times.
            timestamp=from_us(
                loss.last_ns // _NS_PER_US if loss.is_disk_full else self._monotonic_us(loss.last_ns)
            ),
            severity=Severity.WARNING,
            text=_loss_text(loss, self._limit),
        )

    def _monotonic_us(self, at_ns: int) -> int:
        if at_ns < self.since_ns:
            # The clock was set back, or the engine gives again what it gave long ago. With the time that it
            # had the first time, such a line is stored once.
            return at_ns // _NS_PER_US
        self._shown_us = max(self._shown_us, at_ns // _NS_PER_US)
        return self._shown_us

    def _remember(self, at_ns: int, insert_id: str) -> None:
        self._taken.add(insert_id)
        self._taken_order.append((at_ns, insert_id))
        while self._taken_order[0][0] < self.since_ns:
            self._taken.remove(self._taken_order.popleft()[1])


def _instant(insert_id: str) -> int:
    """Return the nanosecond of an insert id, also of a loss."""
    return int(insert_id[:20])


def _loss_text(loss: Loss, limit: LogLimit) -> str:
    if loss.is_end:
        return "The end of this replica's log may be missing: the replica has ended, but the engine did not give the rest."
    why = (
        "the disk of the database was full (setting TRAINING_DISK_LOG_FLOOR_BYTES)"
        if loss.is_disk_full
        else f"the job has written more than {limit.job_bytes} bytes (setting TRAINING_LOG_JOB_BYTES)"
        if loss.is_job_limit
        else f"more than {limit.lines_per_second * WINDOW_SECONDS} lines or "
        f"{limit.bytes_per_second * WINDOW_SECONDS} bytes in {WINDOW_SECONDS} s "
        "(settings TRAINING_LOG_LINES_PER_SECOND, TRAINING_LOG_BYTES_PER_SECOND)"
    )
    if loss.is_announcement:
        return f"From here on only the last {limit.tail_lines} lines of this replica are kept: {why}."
    first, last = (format_timestamp(from_us(at_ns // _NS_PER_US)) for at_ns in (loss.first_ns, loss.last_ns))
    return f"At least {loss.lines} lines ({loss.size} bytes) were dropped here, written from {first} to {last}: {why}."
