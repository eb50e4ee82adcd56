"""
Log entries in the database: written once, read by filter.

Two times are kept. ``timestamp`` is when the line was written; ``receiveTimestamp`` is when it was stored, unique and
growing, so that a reader who asks for what came after the last one it saw never misses a line that was stored late.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from training_api.dialects.ml_v1.filters import parse_filter
from training_api.dialects.ml_v1.log_wire import JOB_RESOURCE_TYPE, LogEntry, MonitoredResource, Severity
from training_api.errors import InvalidFilter
from training_service.model.clock import Clock, utc_now
from training_service.store.database import from_us, to_us, writing
from training_service.store.filter_sql import (
    FieldSql,
    constant_field,
    filter_to_sql,
    json_field,
    rank_field,
    text_field,
    time_field,
)
from training_service.store.tables import log_entries

_TRIAL_LABEL = "ml.googleapis.com/trial_id"
_TASK_LABEL = "ml.googleapis.com/task_name"
_JOB_LABEL = "ml.googleapis.com/job_id"
_ADVISORY_LOCK = 8470  # any number, as long as all writers share it
#: A page of long lines ends early, so that no request takes the service's memory.
_MAX_PAGE_CHARACTERS = 8_000_000
_FETCHED_ROWS = 50
_c = log_entries.c
_FIELDS: dict[str, FieldSql] = {
    "resource.type": constant_field(JOB_RESOURCE_TYPE),
    "resource.labels.job_id": text_field(_c.job_id),
    "resource.labels.task_name": text_field(_c.task_name),
    "resource.labels.project_id": text_field(_c.project),
    "labels.task_name": text_field(_c.task_name),
    f"labels.{_TASK_LABEL}": text_field(_c.task_name),
    f"labels.{_JOB_LABEL}": text_field(_c.job_id),
    f"labels.{_TRIAL_LABEL}": text_field(_c.trial_id),
    "timestamp": time_field(_c.timestamp_us),
    "receiveTimestamp": time_field(_c.received_us),
    "insertId": text_field(_c.insert_id),
    "severity": rank_field(_c.severity, {severity.value: severity.number for severity in Severity}),
    "textPayload": text_field(_c.text_payload),
    "logName": text_field(sa.literal("projects/") + _c.project + "/logs/" + _c.task_name),
}
_PREFIXES: dict[str, Callable[[str], FieldSql]] = {
    "jsonPayload.": lambda key: json_field(_c.json_payload, key),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """Whose lines: a replica of a job or, where ``trial_id`` is set, of one of its trials."""

    project: str
    job_id: str
    task_name: str
    trial_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLogEntry:
    """A line to store; the same (project, job, task, insert id) is stored once, however often it is written."""

    project: str
    job_id: str
    task_name: str
    insert_id: str
    timestamp: datetime
    severity: Severity
    text: str | None = None
    json_payload: dict[str, Any] | None = None
    trial_id: str = ""


class LogStore:
    """Reads and writes ``log_entries``; safe for threads, one writing service a database."""

    def __init__(self, engine: sa.Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        with engine.connect() as connection:
            self._received_us = connection.execute(sa.select(sa.func.max(_c.received_us))).scalar() or 0

    def append(self, entries: Sequence[NewLogEntry]) -> None:
        """Store ``entries`` in one transaction of their own."""
        if entries:
            with writing(self._engine).begin() as connection:
                self.append_with(connection, entries)

    def append_with(self, connection: sa.Connection, entries: Sequence[NewLogEntry]) -> None:
        """Store ``entries`` within the caller's write transaction (``database.writing``)."""
        # Arrival times are given out under the database's write lock, so they become visible in their order.
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        with self._lock:
            first = max(self._received_us + 1, to_us(self._clock()))
            self._received_us = first + len(entries) - 1
        rows = [_row(entry, first + place) for place, entry in enumerate(entries)]
        insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
        connection.execute(insert(log_entries).on_conflict_do_nothing(), rows)

    def newest_insert_id(self, source: LogSource) -> str | None:
        """Return the largest insert id of one replica's lines, from which reading goes on."""
        query = sa.select(sa.func.max(_c.insert_id)).where(*_lines_of(source))
        with self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def insert_ids_since(self, source: LogSource, insert_id: str) -> list[str]:
        """Return the insert ids of one replica's lines from ``insert_id`` on, in their order."""
        query = (
            sa.select(_c.insert_id)
            .where(*_lines_of(source), _c.insert_id >= insert_id)
            .order_by(_c.insert_id)
        )
        with self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def text_size(self, project: str, job_id: str) -> int:
        """Return the characters of all lines of a job; reads them all."""
        size = sa.func.coalesce(sa.func.length(_c.text_payload), 0) + sa.func.coalesce(
            sa.func.length(sa.cast(_c.json_payload, sa.Text)), 0
        )
        query = sa.select(sa.func.sum(size)).where(_c.project == project, _c.job_id == job_id)
        with self._engine.connect() as connection:
            return int(connection.execute(query).scalar() or 0)

    def list_page(
        self,
        *,
        projects: Sequence[str],
        filter_text: str,
        page_size: int,
        page_token: str = "",
        descending: bool = False,
    ) -> tuple[list[LogEntry], str]:
        """
        Return one page, ordered by (timestamp, insertId), and the token of the next page (empty: no more).

        :raises InvalidFilter: the filter or the token cannot be read.
        """
        order = (_c.timestamp_us, _c.insert_id, _c.id)
        query = sa.select(log_entries).where(_c.project.in_(projects))
        tree = parse_filter(filter_text)
        if tree is not None:
            query = query.where(filter_to_sql(tree, _FIELDS, _PREFIXES))
        if page_token:
            place, last = sa.tuple_(*order), sa.tuple_(*_read_token(page_token))
            query = query.where(place < last if descending else place > last)
        query = query.order_by(*(column.desc() if descending else column for column in order))
        page: list[LogEntry] = []
        last_row: Any = None
        size = 0
        with self._engine.connect() as connection:
            for row in connection.execute(query.limit(page_size + 1)).yield_per(_FETCHED_ROWS):
                if len(page) == page_size or size >= _MAX_PAGE_CHARACTERS:
                    return page, _write_token(last_row)
                page.append(_entry(row))
                last_row = row
                size += len(row.text_payload or "") or len(str(row.json_payload))
        return page, ""


def _lines_of(source: LogSource) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _c.project == source.project,
        _c.job_id == source.job_id,
        _c.task_name == source.task_name,
        _c.trial_id == source.trial_id,
    )


def _row(entry: NewLogEntry, received_us: int) -> dict[str, Any]:
    return {
        "project": entry.project,
        "job_id": entry.job_id,
        "task_name": entry.task_name,
        "trial_id": entry.trial_id,
        "insert_id": entry.insert_id,
        "timestamp_us": to_us(entry.timestamp),
        "received_us": received_us,
        "severity": entry.severity.value,
        "text_payload": entry.text,
        "json_payload": entry.json_payload,
    }


def _entry(row: Any) -> LogEntry:
    labels = {_JOB_LABEL: row.job_id, _TASK_LABEL: row.task_name}
    if row.trial_id:
        labels[_TRIAL_LABEL] = row.trial_id
    resource = {"job_id": row.job_id, "task_name": row.task_name, "project_id": row.project}
    return LogEntry(
        log_name=f"projects/{row.project}/logs/{row.task_name}",
        resource=MonitoredResource(labels=resource),
        timestamp=from_us(row.timestamp_us),
        receive_timestamp=from_us(row.received_us),
        severity=Severity(row.severity),
        insert_id=row.insert_id,
        labels=labels,
        text_payload=row.text_payload,
        json_payload=row.json_payload,
    )


def _write_token(row: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps([row.timestamp_us, row.insert_id, row.id]).encode()).decode()


def _read_token(token: str) -> tuple[int, str, int]:
    try:
        timestamp_us, insert_id, row_id = json.loads(base64.urlsafe_b64decode(token))
        return int(timestamp_us), str(insert_id), int(row_id)
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidFilter(f"page token {token!r} is not one that this service gave out") from error
