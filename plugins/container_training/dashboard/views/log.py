"""A job's log: which lines are asked for, and how one is shown. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training_api.clients.log_cursor import job_log_filter
from training_api.cloud_logging import SERVICE_TASK_NAME, TRIAL_LABEL, LogEntry, Severity
from training_api.filtering import quoted
from training_api.wire import format_timestamp

#: Lines of an answer; the service gives at most 1000.
PAGE_LINES = 500
MAX_PAGE_LINES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """
    Lines of one job.

    :param replica: task name, ``service`` for the service's own lines; empty: all.
    :param trial: id; empty: all.
    :param search: a part of the text, whatever its case.
    :param severity: this one or a graver one.
    :param after: stored after this RFC 3339 time.
    :param before: written at or before this one.
    """

    job_id: str
    replica: str = ""
    trial: str = ""
    search: str = ""
    severity: Severity | None = None
    after: str = ""
    before: str = ""

    def filter(self) -> str:
        """Return the filter of ``entries:list``."""
        clauses = [job_log_filter(self.job_id, task_name=self.replica)]
        if self.trial:
            clauses.append(f'labels."{TRIAL_LABEL}"={quoted(self.trial)}')
        if self.search:
            wanted = quoted(self.search)
            clauses.append(f"(textPayload:{wanted} OR jsonPayload.message:{wanted})")
        if self.severity is not None:
            clauses.append(f"severity>={self.severity}")
        if self.after:
            clauses.append(f"receiveTimestamp>{quoted(self.after)}")
        if self.before:
            clauses.append(f"timestamp<={quoted(self.before)}")
        return " AND ".join(clauses)


def line_view(entry: LogEntry) -> dict[str, Any]:
    """Return one line as the page shows it; ``key`` tells it from every other line of the job."""
    return {
        "key": f"{entry.task_name}/{entry.trial_id}/{entry.insert_id}",
        "time": format_timestamp(entry.timestamp),
        "replica": entry.task_name,
        "trial": entry.trial_id,
        "severity": entry.severity,
        "text": line_text(entry),
    }


def line_text(entry: LogEntry) -> str:
    """Return the text of a line; of a JSON line its message, and what else it has behind it."""
    if entry.text_payload is not None:
        return entry.text_payload
    if entry.task_name == SERVICE_TASK_NAME and entry.message:
        return entry.message  # what it has beside the text is for programs
    rest = {name: value for name, value in (entry.json_payload or {}).items() if name != "message"}
    tail = json.dumps(rest, ensure_ascii=False, default=str) if rest else ""
    return f"{entry.message}  {tail}".strip()


def plain_line(entry: LogEntry) -> str:
    """Return one line of the file that people download, with its line break."""
    trial = f" trial {entry.trial_id}" if entry.trial_id else ""
    time = format_timestamp(entry.timestamp)
    return f"{time} {entry.severity:<8}{trial} {entry.task_name}: {line_text(entry)}\n"


def newest_arrival(entries: Sequence[LogEntry], otherwise: str) -> str:
    """
    Return the time from which to request later entries.

    It is when the newest of ``entries`` was stored.

    Arrival times grow with each stored line, so that a reader who goes by them misses none, however late it
    was stored.
    """
    times = [entry.receive_timestamp or entry.timestamp for entry in entries]
    return max((format_timestamp(time) for time in times), default=otherwise)
