"""The amount of log lines in the database."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from training_service.store.database import from_us
from training_service.store.tables import log_jobs, log_lines

_c = log_lines.c
#: Characters of a line.
_SIZE = sa.func.coalesce(sa.func.length(_c.text_payload), 0) + sa.func.coalesce(
    sa.func.length(sa.cast(_c.json_payload, sa.Text)), 0
)
_ROWS_AT_ONCE = 2000


def log_amount(engine: sa.Engine, project: str, job_id: str) -> tuple[int, int]:
    """Return the number of a job's lines and the characters of their text; reads them all."""
    key = sa.select(log_jobs.c.id).where(log_jobs.c.project == project, log_jobs.c.job_id == job_id)
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(_SIZE), 0))
    with engine.connect() as connection:
        lines, size = connection.execute(query.where(_c.log_job == key.scalar_subquery())).one()
    return int(lines), int(size)


def moment_beyond(engine: sa.Engine, size: int) -> datetime | None:
    """
    Return the moment since which at most ``size`` characters of log lines have been stored.

    Reads the newest lines up to that size, unless all jobs together have written less in all.

    :return: ``None``: there are no more than that.
    """
    if _written(engine) <= size:
        return None
    left, before = size, 1 << 62
    while True:
        query = (
            sa.select(_c.received_us, _SIZE.label("size"))
            .where(_c.received_us < before)
            .order_by(_c.received_us.desc())
            .limit(_ROWS_AT_ONCE)
        )
        with engine.connect() as connection:
            rows = connection.execute(query).all()
        for row in rows:
            left -= row.size
            if left < 0:
                return from_us(row.received_us + 1)
        if len(rows) < _ROWS_AT_ONCE:
            return None
        before = rows[-1].received_us


def _written(engine: sa.Engine) -> int:
    """Return the bytes written by the jobs with logs here; a removal does not reduce them."""
    with engine.connect() as connection:
        return int(connection.execute(sa.select(sa.func.sum(log_jobs.c.text_bytes))).scalar() or 0)
