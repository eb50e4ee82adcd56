"""Spans in the database: each is written when it begins, and once more when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.fleet.wire import Span, SpanKind
from training_service.store.database import from_us, to_us, writing
from training_service.store.jobs.job_rows import trial_id_of
from training_service.store.sql.conflicts import conflict_insert
from training_service.store.tables import is_of, jobs, spans

_KEYS = ("job_uid", "kind", "name", "attempt")
_NEWS = frozenset({"started_us", "ended_us", "exit_code", "out_of_memory", "pinned"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSpan:
    """
    A span as it is stored; with the same job, kind, name and attempt it is the same span.

    :param ended_at: ``None``: it goes on.
    :param pinned: of a pull: the image that came, by digest.
    """

    job_uid: str
    kind: SpanKind
    name: str
    attempt: str = ""
    started_at: datetime
    ended_at: datetime | None = None
    exit_code: int | None = None
    out_of_memory: bool = False
    pinned: str = ""


class SpanStore:
    """Reads and writes ``spans``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def put(self, *new: NewSpan) -> None:
        """Store the spans, each in the place of what is known of it so far; it may be repeated."""
        with writing(self._engine).begin() as connection:
            insert = conflict_insert(connection.dialect.name, spans)
            news = {column.name: column for column in insert.excluded if column.name in _NEWS}
            statement = insert.on_conflict_do_update(index_elements=_KEYS, set_=news)
            connection.execute(statement, [_values(span) for span in new])

    def of_job(self, job_uid: str) -> list[Span]:
        """Return the spans of a job and of its trials, oldest first."""
        query = (
            sa.select(spans, jobs.c.study_uid, jobs.c.job_id)
            .join(jobs, jobs.c.uid == spans.c.job_uid)
            .where(is_of(job_uid))
            .order_by(spans.c.started_us, spans.c.id)
        )
        with self._engine.connect() as connection:
            return [
                Span(
                    kind=SpanKind(row.kind),
                    name=row.name,
                    attempt=row.attempt,
                    trial_id=trial_id_of(row),
                    start_time=from_us(row.started_us),
                    end_time=from_us(row.ended_us) if row.ended_us is not None else None,
                    exit_code=row.exit_code,
                    out_of_memory=row.out_of_memory,
                    pinned=row.pinned,
                )
                for row in connection.execute(query)
            ]


def _values(span: NewSpan) -> dict[str, Any]:
    return {
        "job_uid": span.job_uid,
        "kind": span.kind.value,
        "name": span.name,
        "attempt": span.attempt,
        "started_us": to_us(span.started_at),
        "ended_us": to_us(span.ended_at) if span.ended_at else None,
        "exit_code": span.exit_code,
        "out_of_memory": span.out_of_memory,
        "pinned": span.pinned,
    }
