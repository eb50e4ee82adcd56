"""What jobs were refused, in the database, so that their retry limit survives a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from training_api.states import LIVING
from training_service.store.database import from_us, to_us, writing
from training_service.store.tables import jobs, refusals

_c = refusals.c


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRefusal:
    """
    Consecutive refusals of one job.

    :param work: the refused work.
    :param lasted: how long it has been retried.
    :param last_at: when it was refused last.
    :param reasons: the reasons, each once.
    """

    job_uid: str
    work: str
    lasted: timedelta
    last_at: datetime
    reasons: frozenset[str]


class RefusalStore:
    """Reads and writes ``refusals``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def load(self) -> list[StoredRefusal]:
        """Return the rows of jobs that have not ended; remove the others, which a kill may leave."""
        active = sa.select(jobs.c.uid).where(jobs.c.state.in_(sorted(LIVING)))
        with writing(self._engine).begin() as connection:
            connection.execute(sa.delete(refusals).where(_c.job_uid.not_in(active)))
            rows = connection.execute(sa.select(refusals)).all()
        return [
            StoredRefusal(
                job_uid=row.job_uid,
                work=row.work,
                lasted=timedelta(microseconds=row.lasted_us),
                last_at=from_us(row.last_us),
                reasons=frozenset(row.reasons or ()),
            )
            for row in rows
        ]

    def write(self, refusal: StoredRefusal) -> None:
        """Store ``refusal`` in place of that for the same work of the job."""
        values = {
            "lasted_us": refusal.lasted // timedelta(microseconds=1),
            "last_us": to_us(refusal.last_at),
            "reasons": sorted(refusal.reasons),
        }
        keys = {"job_uid": refusal.job_uid, "work": refusal.work}
        with writing(self._engine).begin() as connection:
            connection.execute(sa.delete(refusals).where(*_is(refusal.job_uid, [refusal.work])))
            connection.execute(sa.insert(refusals).values(**keys, **values))

    def delete(self, job_uid: str, works: Sequence[str]) -> None:
        """Forget these kinds of work of the job."""
        with writing(self._engine).begin() as connection:
            connection.execute(sa.delete(refusals).where(*_is(job_uid, works)))


def _is(job_uid: str, works: Sequence[str]) -> tuple[sa.ColumnElement[bool], ...]:
    return _c.job_uid == job_uid, _c.work.in_(works)
