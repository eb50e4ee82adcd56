"""
How much of a replica's output is kept: all of it, unless it is a flood.

In every ten seconds of output the first lines are kept, up to the limits, and the last ones; what lies
between is dropped and counted. So a flood loses its middle, and the end of a failed trainer is always there.
Time is that of the lines themselves: a reader that is late decides as one that is not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from container_engines.base import LogLine

WINDOW_SECONDS = 10
_WINDOW_NS = WINDOW_SECONDS * 10**9
#: The kept end of a flood is held in memory: at most this, but always its last line.
TAIL_BYTES = 1 << 20
#: Ends the insert id of a loss, which is otherwise that of the last dropped line: so it stands in its place.
LOSS_SUFFIX = "-dropped"
#: The same for an end that is missing; it stands behind the last line that was read.
END_SUFFIX = "-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimit:
    """
    What one replica may write, on average over ten seconds, and one job altogether.

    :param tail_lines: lines before the end of a flood that are kept whatever the other limits say; at least
        1.
    :param job_bytes: text of all replicas of one job; beyond it only the end of each replica is kept.
    """

    lines_per_second: int = 2500
    bytes_per_second: int = 1_000_000
    tail_lines: int = 500
    job_bytes: int = 500_000_000


class JobBudget:
    """
    What is left of ``job_bytes``, shared by the job's replicas and trials; safe for threads.

    :param written: returns how many bytes the job had before; asked once.
    """

    def __init__(self, job_bytes: int, written: Callable[[], int] = lambda: 0) -> None:
        self._left = job_bytes
        self._written: Callable[[], int] | None = written
        self._lock = threading.Lock()

    def ask(self) -> None:
        """
        Find out how many bytes the job had before, unless that is known.

        Raises what ``written`` does.
        """
        with self._lock:
            if self._written:
                self._left -= self._written()
                self._written = None

    def take(self, size: int) -> bool:
        """Take ``size`` bytes if there are as many; once refused, always refused."""
        self.ask()
        with self._lock:
            if size > self._left:
                self._left = 0
                return False
            self._left -= size
            return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLine:
    """
    A line with its place in the replica's log.

    :param insert_id: grows with the lines of one instant.
    :param size: bytes of its text.
    """

    insert_id: str
    line: LogLine
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """
    Lines that were dropped, to be told in the place of the last of them.

    :param is_announcement: nothing is counted yet: from here on the job has used up ``job_bytes``.
    :param is_end: nobody knows how much: the engine did not give the end of the log.
    """

    insert_id: str
    lines: int
    size: int
    first_ns: int
    last_ns: int
    is_announcement: bool = False
    is_job_limit: bool = False
    is_end: bool = False
    is_disk_full: bool = False


Kept = PlacedLine | Loss


class LogLimiter:
    """
    Decides line by line; what it returns is to be stored in that order. Not safe for threads.

    Every line that it is offered comes out once, or is counted in one ``Loss``, once ``end`` has been called.

    :param tail_bytes: returns how much of the end of a flood may be held in memory now.
    """

    def __init__(
        self, limit: LogLimit, budget: JobBudget, tail_bytes: Callable[[], int] = lambda: TAIL_BYTES
    ) -> None:
        self._limit = limit
        self._tail_bytes = tail_bytes
        self._budget = budget
        self._window_end_ns = -_WINDOW_NS
        self._is_open = True
        self._is_spent = False
        self._lines = 0
        self._size = 0
        self._tail: deque[PlacedLine] = deque()
        self._tail_size = 0
        self._dropped: list[int] = [0, 0, 0, 0]  # lines, bytes, first and last nanosecond
        self._last_dropped_id = ""
        self._last_kept_id = ""

    @property
    def is_holding(self) -> bool:
        """Whether lines wait for more, or for the end."""
        return bool(self._tail)

    def offer(self, line: PlacedLine) -> list[Kept]:
        """Take ``line``; return what is to be stored by now, which may be nothing."""
        kept: list[Kept] = []
        # Far before the window: the clock was set back.
        is_within = self._window_end_ns - 2 * _WINDOW_NS <= line.line.timestamp_ns < self._window_end_ns
        if not is_within and not self._is_spent:
            kept += self.end()
            self._window_end_ns = line.line.timestamp_ns + _WINDOW_NS
            self._is_open, self._lines, self._size = True, 0, 0
        if self._is_open:
            self._is_open = self._fits(line)
            if self._is_open and not self._budget.take(line.size):
                self._is_open, self._is_spent = False, True
                kept.append(self._announcement(line))
        if self._is_open:
            self._lines += 1
            self._size += line.size
            self._last_kept_id = line.insert_id
            kept.append(line)
        else:
            self._hold(line)
        return kept

    def pause(self) -> list[Kept]:
        """
        Return what is held, as nothing has come for a while.

        Unless only the very end may still be stored.
        """
        return [] if self._is_spent else self.end()

    def end(self) -> list[Kept]:
        """Return what is held: the loss, if there is one, then the last lines."""
        kept: list[Kept] = []
        lines, size, first_ns, last_ns = self._dropped
        if lines:
            kept.append(
                Loss(
                    insert_id=f"{self._last_dropped_id}{LOSS_SUFFIX}",
                    lines=lines,
                    size=size,
                    first_ns=first_ns,
                    last_ns=last_ns,
                    is_job_limit=self._is_spent,
                )
            )
        if self._tail:
            kept += self._tail
            self._last_kept_id = self._tail[-1].insert_id
        self._tail.clear()
        self._tail_size = 0
        self._dropped = [0, 0, 0, 0]
        return kept

    def _fits(self, line: PlacedLine) -> bool:
        return (
            self._lines < self._limit.lines_per_second * WINDOW_SECONDS
            and self._size + line.size <= self._limit.bytes_per_second * WINDOW_SECONDS
        )

    def _hold(self, line: PlacedLine) -> None:
        self._tail.append(line)
        self._tail_size += line.size
        tail_bytes = self._tail_bytes()
        while len(self._tail) > 1 and (
            len(self._tail) > self._limit.tail_lines or self._tail_size > tail_bytes
        ):
            dropped = self._tail.popleft()
            self._tail_size -= dropped.size
            at_ns = dropped.line.timestamp_ns
            if not self._dropped[0]:
                self._dropped[2] = at_ns
            self._dropped[0] += 1
            self._dropped[1] += dropped.size
            self._dropped[3] = at_ns
            self._last_dropped_id = dropped.insert_id

    def _announcement(self, line: PlacedLine) -> Loss:
        at_ns = line.line.timestamp_ns
        return Loss(
            # Between the line before, which was kept, and this one, which may be yet.
            insert_id=f"{self._last_kept_id}-limit" if self._last_kept_id else line.insert_id[:-1],
            lines=0,
            size=0,
            first_ns=at_ns,
            last_ns=at_ns,
            is_announcement=True,
            is_job_limit=True,
        )
