"""
Moves the log lines of version 5 and older into ``log_lines``.

This happens in short transactions when the database is opened; after a kill, the next service resumes it. The
database does the work: 1 million lines take some seconds.
"""

# These statements contain only constants of this module.
# ruff: noqa: S608
from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
import structlog

from training_api.cloud_logging import Severity
from training_service.store.logs.insert_ids import NO_PLACE
from training_service.store.tables import meta

#: Lines per transaction.
LINES_AT_ONCE = 20_000
_TABLE = "log_entries"
#: When the database was taken over, in microseconds; absent: it began with this version.
_TAKEN_OVER = "log_taken_over_us"
_MOVED = "log_entries_moved"

logger = structlog.get_logger(__name__)

#: What the two databases write differently: a container line's id, and bytes of text.
_DIALECT = {
    "sqlite": {
        "is_line": f"(e.insert_id GLOB '{'[0-9]' * 20}-{'[0-9]' * 6}*' AND substr(e.insert_id, 28, 1) NOT GLOB '[0-9]')",
        "size": "length(CAST(coalesce(e.text_payload, e.json_payload, '') AS BLOB))",
    },
    "postgresql": {
        "is_line": "(e.insert_id ~ '^[0-9]{20}-[0-9]{6}([^0-9]|$)')",
        "size": "octet_length(coalesce(e.text_payload, CAST(e.json_payload AS TEXT), ''))",
    },
}
_SEVERITY = " ".join(f"WHEN '{each.value}' THEN {each.number}" for each in Severity)
_MARK = "(CASE e.trial_id WHEN '' THEN '' ELSE '-trial' || e.trial_id || '.' END)"
_OWN_LINE = f"({{is_line}} AND substr(e.insert_id, 28, length({_MARK})) = {_MARK})"
_AT_NS = "CAST(substr(e.insert_id, 1, 20) AS BIGINT)"
_CHUNK = "e.id > :after AND e.id <= :last"
STEPS = (
    f"""INSERT INTO log_jobs (project, job_id, text_bytes)
    SELECT e.project, e.job_id, sum({{size}}) FROM {_TABLE} e WHERE {_CHUNK} GROUP BY e.project, e.job_id
    ON CONFLICT (project, job_id) DO UPDATE SET text_bytes = log_jobs.text_bytes + excluded.text_bytes""",
    f"""INSERT INTO log_streams (log_job, task_name, trial_id, container, newest_ns, received_us)
    SELECT j.id, e.task_name, e.trial_id, '', max(CASE WHEN {_OWN_LINE} THEN {_AT_NS} ELSE -1 END), max(e.received_us)
    FROM {_TABLE} e JOIN log_jobs j ON j.project = e.project AND j.job_id = e.job_id WHERE {_CHUNK}
    GROUP BY j.id, e.task_name, e.trial_id
    ON CONFLICT (log_job, task_name, trial_id, container) DO UPDATE SET received_us = excluded.received_us,
    newest_ns = CASE WHEN excluded.newest_ns > log_streams.newest_ns THEN excluded.newest_ns
    ELSE log_streams.newest_ns END""",
    f"""INSERT INTO log_lines (received_us, timestamp_us, offset_ns, log_job, stream, place, severity, suffix,
    text_payload, json_payload)
    SELECT e.received_us, e.timestamp_us,
    CASE WHEN {_OWN_LINE} THEN {_AT_NS} - e.timestamp_us * 1000 ELSE 0 END, j.id, s.id,
    CASE WHEN {_OWN_LINE} THEN CAST(substr(e.insert_id, 22, 6) AS INTEGER) ELSE {NO_PLACE} END,
    CASE e.severity {_SEVERITY} ELSE 0 END,
    CASE WHEN {_OWN_LINE} THEN substr(e.insert_id, 28 + length({_MARK})) ELSE e.insert_id END,
    e.text_payload, e.json_payload
    FROM {_TABLE} e JOIN log_jobs j ON j.project = e.project AND j.job_id = e.job_id
    JOIN log_streams s ON s.log_job = j.id AND s.task_name = e.task_name AND s.trial_id = e.trial_id
    AND s.container = '' WHERE {_CHUNK}""",
)

#: Two services that wrote at once may have assigned an arrival time twice; the later lines then arrive last.
_SEPARATE = f"""UPDATE {_TABLE} SET received_us = (SELECT max(received_us) FROM {_TABLE}) + id WHERE id IN
    (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY received_us ORDER BY id) AS n FROM {_TABLE}) t
    WHERE n > 1)"""


def note_takeover(connection: sa.Connection) -> None:
    """Record that older containers may have lines that do not name their container."""
    _put(connection, _TAKEN_OVER, time.time_ns() // 1000)


def taken_over_us(engine: sa.Engine) -> int:
    """Return when this database was taken over from an older version, in microseconds; 0: never."""
    with engine.connect() as connection:
        return _get(connection, _TAKEN_OVER)


def take_over_lines(engine: sa.Engine) -> int:
    """Move all lines; return how many there were. Nothing else may write to the database."""
    if not sa.inspect(engine).has_table(_TABLE):
        return 0
    begun, moved, count = time.monotonic(), 0, -1
    while count:
        try:
            with engine.execution_options(immediate=True).begin() as connection:
                count = _move(connection, LINES_AT_ONCE)
        except sa.exc.IntegrityError:
            with engine.execution_options(immediate=True).begin() as connection:
                if not connection.execute(sa.text(_SEPARATE)).rowcount:
                    raise
            continue
        moved += count
    with engine.execution_options(immediate=True).begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE {_TABLE}")
    logger.info("log lines taken over", lines=moved, seconds=round(time.monotonic() - begun, 1))
    return moved


def _move(connection: sa.Connection, limit: int) -> int:
    after = _get(connection, _MOVED)
    chunk = sa.text(
        f"SELECT max(id), count(*) FROM (SELECT id FROM {_TABLE} WHERE id > :after ORDER BY id LIMIT :limit) c"
    )
    last, count = connection.execute(chunk, {"after": after, "limit": limit}).one()
    if count:
        for step in STEPS:
            statement = step.format(**_DIALECT[connection.dialect.name])
            connection.execute(sa.text(statement), {"after": after, "last": last})
        _put(connection, _MOVED, last)
    return int(count)


def _get(connection: sa.Connection, key: str) -> int:
    value = connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none()
    return int(value or 0)


def _put(connection: sa.Connection, key: str, value: Any) -> None:
    connection.execute(sa.delete(meta).where(meta.c.key == key))
    connection.execute(sa.insert(meta).values(key=key, value=str(value)))
