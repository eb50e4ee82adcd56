"""Rows of the table of jobs, written by a test in any state and at any time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.fleet.wire import JobRow
from training_service.store.database import to_us, writing
from training_service.store.tables import jobs


def store_job(database: sa.Engine, job_id: str, created_us: int, **columns: Any) -> None:
    """Write a job of one master, or a trial; ``columns`` are those that differ."""
    row = {
        "uid": f"uid-{job_id}",
        "project": "p",
        "job_id": job_id,
        "labels": {},
        "training_input": {"scaleTier": "CUSTOM", "masterType": "n1-standard-4"},
        "state": "QUEUED",
        "priority": 0,
        "created_us": created_us,
    }
    with writing(database).begin() as connection:
        connection.execute(sa.insert(jobs).values(**(row | columns)))


def store_row(database: sa.Engine, row: JobRow) -> None:
    """Write the job that a search shows as ``row``."""
    store_job(
        database,
        row.job_id,
        to_us(row.create_time),
        state=row.state.value,
        labels=row.labels,
        training_input=row.training_input.to_wire(),
        preparing_us=_us(row.prepare_time),
        running_us=_us(row.start_time),
        ended_us=_us(row.end_time),
        reason=row.reason.to_wire() if row.reason else {},
    )


def _us(moment: datetime | None) -> int | None:
    return None if moment is None else to_us(moment)
