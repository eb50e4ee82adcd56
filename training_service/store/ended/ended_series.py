"""Thins out what jobs and trials reported and used, some time after their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.states import TERMINAL
from training_service.store.database import to_us, writing
from training_service.store.tables import gpu_samples, jobs, measurements, usage_samples

#: Jobs and trials of one batch.
_BATCH_JOBS = 200
#: Rows that one transaction removes at most.
_STEP_ROWS = 2000

#: A position in the walk through the ended jobs: the last one's end, in microseconds, and its sequence.
Place = tuple[int, int]
START: Place = (-1, -1)


class EndedSeries:
    """Removes usage samples, and all measurements but the newest of each tag; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def next_batch(self, place: Place, ended_before: datetime) -> tuple[list[str], Place]:
        """Return the uids of the next jobs and trials that ended before, and the new position."""
        query = (
            sa.select(jobs.c.uid, jobs.c.ended_us, jobs.c.sequence)
            .where(
                jobs.c.state.in_(sorted(TERMINAL)),
                jobs.c.ended_us < to_us(ended_before),
                sa.tuple_(jobs.c.ended_us, jobs.c.sequence) > sa.tuple_(*place),
            )
            .order_by(jobs.c.ended_us, jobs.c.sequence)
            .limit(_BATCH_JOBS)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return [row.uid for row in rows], (rows[-1].ended_us, rows[-1].sequence) if rows else place

    def thin(self, uids: Sequence[str]) -> Iterator[tuple[str, int]]:
        """
        Remove the series of these jobs; yield kind and number of rows after each transaction.

        The newest measurement of each tag stays: a tuning job shows it as ``finalMetric``, and other jobs
        resume from it.
        """
        newer = measurements.alias("newer")
        is_outdated = sa.exists().where(
            newer.c.job_uid == measurements.c.job_uid,
            newer.c.tag == measurements.c.tag,
            newer.c.id > measurements.c.id,
        )
        outdated = sa.select(measurements.c.id).where(measurements.c.job_uid.in_(uids), is_outdated)
        yield from self._remove_all(measurements, measurements.c.id, outdated)
        samples = sa.select(usage_samples.c.id).where(usage_samples.c.job_uid.in_(uids))
        yield from self._remove_all(usage_samples, usage_samples.c.id, samples)
        key = (gpu_samples.c.job_uid, gpu_samples.c.task_name, gpu_samples.c.sampled_us)
        of_gpus = sa.select(*key).where(gpu_samples.c.job_uid.in_(uids))
        yield from self._remove_all(gpu_samples, sa.tuple_(*key), of_gpus)

    def _remove_all(self, table: sa.Table, key: Any, wanted: sa.Select[Any]) -> Iterator[tuple[str, int]]:
        while self._has_any(wanted):
            with writing(self._engine).begin() as connection:
                some = sa.delete(table).where(key.in_(wanted.limit(_STEP_ROWS).correlate(None)))
                count = connection.execute(some).rowcount
            yield table.name, count

    def _has_any(self, wanted: sa.Select[Any]) -> bool:
        # Most jobs have nothing left: checking needs no write lock.
        with self._engine.connect() as connection:
            return connection.execute(wanted.limit(1)).first() is not None
