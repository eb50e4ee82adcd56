"""
Log entries: append once, read by filter.

Two times are kept. ``timestamp`` is when the line was written. ``receiveTimestamp`` is when it was stored; it
is unique and grows, so that a reader who asks for what came after the last one never misses a line that was
stored late.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.cloud_logging import LogEntry, MonitoredResource, Severity
from training_api.filtering import parse_filter
from training_service.model.clock import Clock, utc_now
from training_service.model.paging import foreign_token
from training_service.store.database import LOG_ARRIVALS, from_us, to_us, writing
from training_service.store.logs.insert_ids import join_insert_id
from training_service.store.logs.log_filters import (
    JOB_LABEL,
    TASK_LABEL,
    TRIAL_LABEL,
    log_condition,
    log_keys,
)
from training_service.store.logs.log_removal import remove_lines_before, remove_log
from training_service.store.logs.log_rows import LogSource, NewLogEntry, store_entries
from training_service.store.logs.log_takeover import taken_over_us
from training_service.store.tables import counters, log_jobs, log_lines, log_order, log_streams

__all__ = ["LogSource", "LogStore", "NewLogEntry"]

#: A page of long lines ends early, so that no request takes the service's memory.
_MAX_PAGE_CHARACTERS = 8_000_000
_FETCHED_ROWS = 50
_NS_PER_US = 1000
_SEVERITIES = {severity.number: severity for severity in Severity}
_c = log_lines.c
#: Longer than any page token: four integers and a suffix of 64 characters, which JSON may escape.
_MAX_TOKEN = 1000
_BEYOND_INT64 = 2**63


class LogStore:
    """Reads and writes log entries; safe for threads, and for several services on one database."""

    def __init__(self, engine: sa.Engine, clock: Clock = utc_now) -> None:
        self._engine = engine
        self._clock = clock
        self._taken_over_us = taken_over_us(engine)

    def append(self, entries: Sequence[NewLogEntry]) -> None:
        """Store ``entries`` in one transaction."""
        if entries:
            with writing(self._engine).begin() as connection:
                self.append_with(connection, entries)

    def append_with(self, connection: sa.Connection, entries: Sequence[NewLogEntry]) -> None:
        """Store ``entries`` within the caller's write transaction (``database.writing``)."""
        # The counter's row stays locked until the caller commits: arrival times then become visible in order.
        value = counters.c.value
        now_us = to_us(self._clock())
        last = sa.case((value >= now_us, value), else_=now_us - 1) + len(entries)
        taken = sa.update(counters).where(counters.c.name == LOG_ARRIVALS).values(value=last).returning(value)
        store_entries(connection, entries, connection.execute(taken).scalar_one() - len(entries) + 1)

    def newest_ns(self, source: LogSource) -> int | None:
        """Return the engine's time of a container's newest stored line; ``None``: there is none."""
        with self._engine.connect() as connection:
            row = connection.execute(_stream_of(source)).one_or_none()
        return None if row is None or row.newest_ns < 0 else int(row.newest_ns)

    def insert_ids_since(self, source: LogSource, since_ns: int) -> list[str]:
        """Return the sorted insert ids of a container's lines from engine time ``since_ns`` on."""
        found: list[str] = []
        with self._engine.connect() as connection:
            stream = connection.execute(_stream_of(source)).one_or_none()
            if stream is None:
                return []
            query = (
                sa.select(_c.timestamp_us, _c.offset_ns, _c.place, _c.suffix, _c.stream)
                .where(_c.log_job == stream.log_job, _c.received_us <= stream.received_us)
                .order_by(_c.received_us.desc())
            )
            # Neighbours may be swapped, by less than what callers read again: twice that is enough.
            enough_ns = since_ns - max(stream.newest_ns - since_ns, 0)
            with connection.execute(query.execution_options(yield_per=_FETCHED_ROWS)) as rows:
                for row in rows:
                    at_ns = row.timestamp_us * _NS_PER_US + row.offset_ns
                    if row.stream != stream.id:
                        continue
                    if at_ns < enough_ns:
                        break
                    if at_ns >= since_ns:
                        found.append(_insert_id(row, source.trial_id))
        return sorted(found)

    def before_takeover(self, source: LogSource, started_at: datetime | None) -> LogSource | None:
        """
        Return the source of a container's lines that an older version has followed.

        :return: ``None``: it started after that version ended. Earlier lines name no container.
        """
        if started_at is None or to_us(started_at) >= self._taken_over_us:
            return None
        return replace(source, container="")

    def text_bytes(self, project: str, job_id: str) -> int:
        """Return how many bytes of text a job has written, its trials included."""
        own = (log_jobs.c.project == project, log_jobs.c.job_id == job_id)
        with self._engine.connect() as connection:
            return int(connection.execute(sa.select(log_jobs.c.text_bytes).where(*own)).scalar() or 0)

    def remove(self, project: str, job_id: str) -> int:
        """Remove all lines of a job, a few thousand per transaction; return how many there were."""
        return remove_log(self._engine, project, job_id)

    def remove_before(self, moment: datetime, limit: int) -> int:
        """
        Remove lines stored before ``moment``, oldest first, a few thousand per transaction.

        :param limit: remove at most this many.
        :return: how many; fewer than ``limit``: no more are left.
        """
        return remove_lines_before(self._engine, moment, limit)

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
        Return a page, ordered by (timestamp, insertId), and the next page's token (empty: none).

        :raises InvalidFilter: the filter cannot be read.
        :raises InvalidRequest: the token is invalid.
        """
        tree = parse_filter(filter_text)
        query = sa.select(log_lines)
        if tree is not None:
            query = query.where(log_condition(tree))
        if page_token:
            place, last = sa.tuple_(*log_order), sa.tuple_(*_read_token(page_token))
            query = query.where(place < last if descending else place > last)
        query = query.order_by(*(column.desc() if descending else column for column in log_order))
        keys, are_few = log_keys(projects, tree)
        with self._engine.connect() as connection:
            if are_few:
                found = list(connection.execute(keys).scalars())
                query = query.where(_c.log_job == found[0] if len(found) == 1 else _c.log_job.in_(found))
            else:
                query = query.where(_c.log_job.in_(keys))
            rows, token = _page(connection, query, page_size)
            streams = _streams(connection, {row.stream for row in rows})
        # A missing stream was removed between the two queries.
        return [_entry(row, streams[row.stream]) for row in rows if row.stream in streams], token


def _page(connection: sa.Connection, query: sa.Select[Any], page_size: int) -> tuple[list[Any], str]:
    rows: list[Any] = []
    size = 0
    with connection.execute(query.limit(page_size + 1).execution_options(yield_per=_FETCHED_ROWS)) as found:
        for row in found:
            if len(rows) == page_size or size >= _MAX_PAGE_CHARACTERS:
                return rows, _write_token(rows[-1])
            rows.append(row)
            size += len(row.text_payload or "") or len(str(row.json_payload))
    return rows, ""


def _stream_of(source: LogSource) -> sa.Select[Any]:
    return (
        sa.select(log_streams)
        .join(log_jobs, log_jobs.c.id == log_streams.c.log_job)
        .where(
            log_jobs.c.project == source.project,
            log_jobs.c.job_id == source.job_id,
            log_streams.c.task_name == source.task_name,
            log_streams.c.trial_id == source.trial_id,
            log_streams.c.container == source.container,
        )
    )


def _streams(connection: sa.Connection, ids: set[int]) -> dict[int, Any]:
    query = sa.select(
        log_streams.c.id,
        log_streams.c.task_name,
        log_streams.c.trial_id,
        log_jobs.c.project,
        log_jobs.c.job_id,
    ).join(log_jobs, log_jobs.c.id == log_streams.c.log_job)
    return {row.id: row for row in connection.execute(query.where(log_streams.c.id.in_(ids)))}


def _entry(row: Any, stream: Any) -> LogEntry:
    labels = {JOB_LABEL: stream.job_id, TASK_LABEL: stream.task_name}
    if stream.trial_id:
        labels[TRIAL_LABEL] = stream.trial_id
    resource = {"job_id": stream.job_id, "task_name": stream.task_name, "project_id": stream.project}
    return LogEntry(
        log_name=f"projects/{stream.project}/logs/{stream.task_name}",
        resource=MonitoredResource(labels=resource),
        timestamp=from_us(row.timestamp_us),
        receive_timestamp=from_us(row.received_us),
        severity=_SEVERITIES[row.severity],
        insert_id=_insert_id(row, stream.trial_id),
        labels=labels,
        text_payload=row.text_payload,
        json_payload=row.json_payload,
    )


def _insert_id(row: Any, trial_id: str) -> str:
    return join_insert_id(row.timestamp_us, row.offset_ns, row.place, row.suffix, trial_id)


def _write_token(row: Any) -> str:
    place = [row.timestamp_us, row.offset_ns, row.place, row.stream, row.suffix]
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode()


def _read_token(token: str) -> tuple[int, int, int, int, str]:
    """:raises InvalidRequest: ``token`` is not from ``_write_token``."""
    try:
        parts = json.loads(base64.urlsafe_b64decode(token)) if len(token) <= _MAX_TOKEN else None
    except (ValueError, RecursionError) as error:
        raise foreign_token(token) from error
    match parts:
        case [int(timestamp_us), int(offset_ns), int(place), int(stream), str(suffix)] if (
            all(abs(number) < _BEYOND_INT64 for number in parts[:-1]) and suffix.isprintable()
        ):
            return timestamp_us, offset_ns, place, stream, suffix
    raise foreign_token(token)
