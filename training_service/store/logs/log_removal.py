"""Removes log lines in short transactions, so that no writer waits long."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from training_service.store.database import to_us, writing
from training_service.store.tables import log_jobs, log_lines, log_streams

#: Lines that one transaction removes.
_LINES_AT_ONCE = 5_000


def remove_log(engine: sa.Engine, project: str, job_id: str) -> int:
    """Remove all lines of a job, and its containers' records; return how many lines there were."""
    own = sa.select(log_jobs.c.id).where(log_jobs.c.project == project, log_jobs.c.job_id == job_id)
    removed = 0
    while True:
        with writing(engine).begin() as connection:
            # Writers lock the job before its streams: in the other order, both could wait for each other.
            key = connection.execute(own.with_for_update()).scalar_one_or_none()
            if key is None:
                return removed
            count = _remove(connection, log_lines.c.log_job == key, _LINES_AT_ONCE)
            if count < _LINES_AT_ONCE:
                connection.execute(sa.delete(log_streams).where(log_streams.c.log_job == key))
                connection.execute(sa.delete(log_jobs).where(log_jobs.c.id == key))
                return removed + count
        removed += count


def remove_lines_before(engine: sa.Engine, moment: datetime, limit: int) -> int:
    """Remove at most ``limit`` lines stored before ``moment``, oldest first; return how many."""
    older = log_lines.c.received_us < to_us(moment)
    removed, count = 0, -1
    while removed < limit and count:
        with writing(engine).begin() as connection:
            count = _remove(connection, older, min(limit - removed, _LINES_AT_ONCE))
        removed += count
    return removed


def _remove(connection: sa.Connection, wanted: sa.ColumnElement[bool], limit: int) -> int:
    oldest = sa.select(log_lines.c.received_us).where(wanted).order_by(log_lines.c.received_us).limit(limit)
    return connection.execute(sa.delete(log_lines).where(log_lines.c.received_us.in_(oldest))).rowcount
