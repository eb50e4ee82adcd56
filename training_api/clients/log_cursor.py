"""How far a job's log was read: no line lost, none shown twice."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime

from training_api.dialects.ml_v1.log_wire import SERVICE_TASK_NAME, LogEntry, Severity
from training_api.dialects.ml_v1.resources import format_timestamp

_LEVELS: Mapping[Severity, int] = {
    Severity.DEBUG: logging.DEBUG,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.ERROR,
    Severity.CRITICAL: logging.CRITICAL,
    Severity.ALERT: logging.CRITICAL,
    Severity.EMERGENCY: logging.CRITICAL,
}


_Place = tuple[datetime, str]


class LogCursor:
    """
    A place in a job's log, by the time at which the service stored a line.

    One pass reads all pages after ``received_after``, hands each page to ``take``, and ends with ``finish``. Lines may be
    stored while the pages are read, also before the place that was reached. They are newer than all that existed when
    the first page was answered, so the cursor moves to the newest line of the first page only, and remembers the
    later lines that were shown.
    """

    def __init__(self, received_after: datetime | None = None) -> None:
        self.received_after = received_after
        self._shown: set[_Place] = set()
        self._first_page_newest: datetime | None = None
        self._is_first_page = True

    def take(self, entries: Sequence[LogEntry]) -> list[LogEntry]:
        """Return those of one page that were not shown yet, in their order."""
        if self._is_first_page:
            self._first_page_newest = max((_received(entry) for entry in entries), default=None)
            self._is_first_page = False
        new = [entry for entry in entries if _place(entry) not in self._shown]
        self._shown.update(_place(entry) for entry in new)
        return new

    def finish(self) -> None:
        """End a pass: the next one starts after what this one is sure to have seen."""
        newest = self._first_page_newest
        if newest is not None:
            self.received_after = newest
            self._shown = {place for place in self._shown if place[0] > newest}
        self.restart()

    def restart(self) -> None:
        """Begin a pass anew, after one that broke off; what was shown stays shown."""
        self._first_page_newest = None
        self._is_first_page = True

    def to_json(self) -> str | None:
        """Return the cursor as RFC 3339, or ``None`` at the beginning."""
        return format_timestamp(self.received_after) if self.received_after else None

    @classmethod
    def from_json(cls, text: str | None) -> LogCursor:
        """Return the cursor that ``to_json`` wrote."""
        return cls(datetime.fromisoformat(text) if text else None)


def log_line(entry: LogEntry) -> tuple[int, str]:
    """
    Return the level of ``logging`` and the text under which ``entry`` is shown: ``master-replica-0: epoch 1``.

    A line of a trial's replica begins with the trial: ``trial 3, master-replica-0: epoch 1``; the service's own say it themselves.
    """
    is_of_trial = entry.trial_id and entry.task_name != SERVICE_TASK_NAME
    trial = f"trial {entry.trial_id}, " if is_of_trial else ""
    return _LEVELS.get(entry.severity, logging.INFO), f"{trial}{entry.task_name}: {entry.message}"


def _received(entry: LogEntry) -> datetime:
    # A service that gives no arrival time is followed by the time of writing.
    return entry.receive_timestamp or entry.timestamp


def _place(entry: LogEntry) -> _Place:
    return _received(entry), entry.insert_id
