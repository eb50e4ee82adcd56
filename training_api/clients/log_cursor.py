"""What is asked of a job's log, and how far it was read: no line lost, none shown twice."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from training_api.cloud_logging import SERVICE_TASK_NAME, ListLogEntriesResponse, LogEntry, Severity
from training_api.filtering import quoted
from training_api.wire import format_timestamp

_LEVELS: Mapping[Severity, int] = {
    Severity.DEBUG: logging.DEBUG,
    Severity.WARNING: logging.WARNING,
    Severity.ERROR: logging.ERROR,
    Severity.CRITICAL: logging.CRITICAL,
    Severity.ALERT: logging.CRITICAL,
    Severity.EMERGENCY: logging.CRITICAL,
}


_Place = tuple[datetime, str]


def job_log_filter(job_id: str, received_after: datetime | None = None, task_name: str = "") -> str:
    """
    Return the ``entries:list`` filter for lines of ``job_id`` after ``received_after``.

    Pure. A follower passes the largest ``receive_timestamp`` that it has seen: replicas write side by side,
    so a line may be stored after a newer one, and asking by ``timestamp`` would miss it.
    """
    clauses = [f'resource.type="ml_job" AND resource.labels.job_id={quoted(job_id)}']
    if task_name:
        clauses.append(f"resource.labels.task_name={quoted(task_name)}")
    if received_after is not None:
        clauses.append(f'receiveTimestamp>"{format_timestamp(received_after)}"')
    return " AND ".join(clauses)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuestion:
    """One request of ``entries:list``."""

    filter: str
    page_token: str = ""


class LogCursor:
    """
    A place in a job's log, by the time at which the service stored a line.

    Without I/O, for blocking and async callers.

    One pass reads all pages after ``received_after``: ``begin`` returns the first question, ``take`` what is
    new in an answer and the next question. Lines may be stored while the pages are read, also before the
    place that was reached. They are newer than all that existed when the first page was answered, so the
    cursor moves to the newest line of the first page only, and remembers the later lines that were shown.
    """

    def __init__(self, received_after: datetime | None = None) -> None:
        self.received_after = received_after
        self._shown: set[_Place] = set()
        self._first_page_newest: datetime | None = None

    def begin(self, job_id: str, task_name: str = "", severity: str = "") -> LogQuestion:
        """
        Return the first request of a pass.

        A pass that broke off is begun again, and what was shown stays shown.

        :param task_name: one replica, or ``service``; empty: all.
        :param severity: the least severe that is asked for; empty: all.
        """
        self._first_page_newest = None
        least = f" AND severity>={severity}" if severity else ""
        return LogQuestion(filter=job_log_filter(job_id, self.received_after, task_name) + least)

    def take(
        self, question: LogQuestion, page: ListLogEntriesResponse
    ) -> tuple[list[LogEntry], LogQuestion | None]:
        """
        Return the entries of a page that were not shown yet, and the next request, if any.

        The entries are in their order.
        """
        entries = page.entries or []
        if not question.page_token:
            self._first_page_newest = max((_received(entry) for entry in entries), default=None)
        new = [entry for entry in entries if _place(entry) not in self._shown]
        self._shown.update(_place(entry) for entry in new)
        if page.next_page_token:
            return new, LogQuestion(filter=question.filter, page_token=page.next_page_token)
        if self._first_page_newest is not None:
            # The next pass starts after what this one is sure to have seen.
            self.received_after = self._first_page_newest
            self._shown = {place for place in self._shown if place[0] > self._first_page_newest}
        return new, None

    def to_json(self) -> str | None:
        """Return the cursor as RFC 3339, or ``None`` at the beginning."""
        return format_timestamp(self.received_after) if self.received_after else None

    @classmethod
    def from_json(cls, text: str | None) -> LogCursor:
        """Return the cursor that ``to_json`` wrote."""
        return cls(datetime.fromisoformat(text) if text else None)


def log_line(entry: LogEntry) -> tuple[int, str]:
    """
    Return the level of ``logging`` and the text that shows ``entry``.

    ``master-replica-0: epoch 1``.

    A line of a trial's replica begins with the trial: ``trial 3, master-replica-0: epoch 1``; the service's
    own say it themselves.
    """
    is_of_trial = entry.trial_id and entry.task_name != SERVICE_TASK_NAME
    trial = f"trial {entry.trial_id}, " if is_of_trial else ""
    return _LEVELS.get(entry.severity, logging.INFO), f"{trial}{entry.task_name}: {entry.message}"


def _received(entry: LogEntry) -> datetime:
    # A service that gives no arrival time is followed by the time of writing.
    return entry.receive_timestamp or entry.timestamp


def _place(entry: LogEntry) -> _Place:
    return _received(entry), entry.insert_id
