"""Turns log entries into rows of ``log_lines``, with the keys of their jobs and streams."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from training_api.cloud_logging import Severity
from training_service.store.database import to_us
from training_service.store.logs.insert_ids import split_insert_id
from training_service.store.sql.conflicts import conflict_insert
from training_service.store.tables import log_jobs, log_lines, log_order, log_streams

_NS_PER_US = 1000
_SEVERITY_NUMBERS = {severity: severity.number for severity in Severity}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """
    Whose lines: those of a replica of a job, or of its trial ``trial_id``.

    :param container: which run of the replica; empty: the service itself, or unknown.
    """

    project: str
    job_id: str
    task_name: str
    trial_id: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLogEntry:
    """A line to store; the same (source, timestamp, insert id) is stored only once."""

    project: str
    job_id: str
    task_name: str
    insert_id: str
    timestamp: datetime
    severity: Severity
    text: str | None = None
    json_payload: dict[str, Any] | None = None
    trial_id: str = ""
    container: str = ""


class _Row(NamedTuple):
    """
    A row of ``log_lines`` without its keys.

    :param at_ns: the engine's time of the line; -1: unknown.
    """

    received_us: int
    at_ns: int
    size: int
    values: dict[str, Any]


def store_entries(connection: sa.Connection, entries: Sequence[NewLogEntry], first_us: int) -> None:
    """
    Store ``entries`` with arrival times from ``first_us`` on; entries already there stay.

    The same transaction records how far each container is stored, and how much each job has.
    """
    by_source: defaultdict[tuple[str, ...], list[_Row]] = defaultdict(list)
    for received_us, entry in enumerate(entries, first_us):
        key = (entry.project, entry.job_id, entry.task_name, entry.trial_id, entry.container)
        by_source[key].append(_row(entry, received_us))
    for (project, job_id, task_name, trial_id, container), rows in by_source.items():
        source = LogSource(
            project=project, job_id=job_id, task_name=task_name, trial_id=trial_id, container=container
        )
        _store_of(connection, source, rows)


def _store_of(connection: sa.Connection, source: LogSource, rows: Sequence[_Row]) -> None:
    log_job = _add_bytes(connection, source, sum(row.size for row in rows))
    newest_ns = max(row.at_ns for row in rows)
    stream = _reach(connection, log_job, source, newest_ns, rows[-1].received_us)
    insert = _statements(connection.dialect.name).add_lines
    for row in rows:
        row.values.update(log_job=log_job, stream=stream)
    values = [row.values for row in rows]
    done = connection.execute(insert, values, execution_options={"preserve_rowcount": True})
    if done.rowcount != len(rows):
        _take_back(connection, source, rows, stream)


def _take_back(connection: sa.Connection, source: LogSource, rows: Sequence[_Row], stream: int) -> None:
    """Subtract lines that were there already, so that they count once."""
    between = log_lines.c.received_us.between(rows[0].received_us, rows[-1].received_us)
    query = sa.select(log_lines.c.received_us).where(log_lines.c.stream == stream, between)
    stored = set(connection.execute(query).scalars())
    _add_bytes(connection, source, -sum(row.size for row in rows if row.received_us not in stored))


def _add_bytes(connection: sa.Connection, source: LogSource, size: int) -> int:
    """Count the bytes of a job; return its key."""
    values = {"project": source.project, "job_id": source.job_id, "text_bytes": size}
    return int(connection.execute(_statements(connection.dialect.name).add_bytes, values).scalar_one())


def _reach(
    connection: sa.Connection, log_job: int, source: LogSource, newest_ns: int, received_us: int
) -> int:
    """Record how far a container is stored; return the key of its stream."""
    values = {
        "log_job": log_job,
        "task_name": source.task_name,
        "trial_id": source.trial_id,
        "container": source.container,
        "newest_ns": newest_ns,
        "received_us": received_us,
    }
    return int(connection.execute(_statements(connection.dialect.name).reach, values).scalar_one())


class _Statements(NamedTuple):
    add_bytes: Any
    reach: Any
    add_lines: Any


@cache
def _statements(dialect: str) -> _Statements:
    """Return the statements, made once: making them takes longer than running them."""
    insert = partial(conflict_insert, dialect)
    job = insert(log_jobs).values({name: sa.bindparam(name) for name in ("project", "job_id", "text_bytes")})
    add_bytes = job.on_conflict_do_update(
        index_elements=["project", "job_id"],
        set_={"text_bytes": log_jobs.c.text_bytes + job.excluded.text_bytes},
    ).returning(log_jobs.c.id)
    key = ("log_job", "task_name", "trial_id", "container")
    names = (*key, "newest_ns", "received_us")
    stream = insert(log_streams).values({name: sa.bindparam(name) for name in names})
    old, new = log_streams.c.newest_ns, stream.excluded.newest_ns
    reach = stream.on_conflict_do_update(
        index_elements=key,
        set_={
            "newest_ns": sa.case((old > new, old), else_=new),
            "received_us": stream.excluded.received_us,
        },
    ).returning(log_streams.c.id)
    by_time = [log_lines.c.log_job, *log_order]
    return _Statements(add_bytes, reach, insert(log_lines).on_conflict_do_nothing(index_elements=by_time))


def _row(entry: NewLogEntry, received_us: int) -> _Row:
    timestamp_us = to_us(entry.timestamp)
    split = split_insert_id(entry.insert_id, entry.trial_id)
    at_ns = timestamp_us * _NS_PER_US if split.at_ns is None else split.at_ns
    text = entry.text
    if text is None:
        text = json.dumps(entry.json_payload, ensure_ascii=False)
    values = {
        "received_us": received_us,
        "timestamp_us": timestamp_us,
        "offset_ns": at_ns - timestamp_us * _NS_PER_US,
        "place": split.place,
        "severity": _SEVERITY_NUMBERS[entry.severity],
        "suffix": split.suffix,
        "text_payload": entry.text,
        "json_payload": entry.json_payload,
    }
    size = len(text.encode(errors="replace"))
    return _Row(received_us, -1 if split.at_ns is None else split.at_ns, size, values)
