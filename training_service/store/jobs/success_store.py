"""The last success of each DAG and model, a row per pair: no scrape has to read all jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from training_api.job.labels import DAG_LABEL, MODEL_LABEL
from training_service.store.database import from_us
from training_service.store.jobs.stored_spec import mapping_of
from training_service.store.sql.conflicts import conflict_insert
from training_service.store.tables import last_successes

_c = last_successes.c
#: What the columns hold; labels are shorter (the dialects' rules).
_LENGTH = 128


def record_success(connection: sa.Connection, labels: Any, ended_us: int) -> None:
    """
    Record that a job with ``labels`` succeeded, in the transaction that writes its end.

    :param labels: as they are stored; later changes of them do not count.
    """
    known: Mapping[str, Any] = mapping_of(labels)
    values = {
        "dag": str(known.get(DAG_LABEL, ""))[:_LENGTH],
        "model": str(known.get(MODEL_LABEL, ""))[:_LENGTH],
    }
    new = conflict_insert(connection.dialect.name, last_successes).values(**values, ended_us=ended_us)
    # The ends of jobs may be seen in another order.
    later = new.on_conflict_do_update(
        index_elements=[_c.dag, _c.model],
        set_={"ended_us": new.excluded.ended_us},
        where=new.excluded.ended_us > _c.ended_us,
    )
    connection.execute(later)


class SuccessStore:
    """Reads ``last_successes``; safe for threads."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def newest(self, limit: int = 200) -> list[tuple[str, str, datetime]]:
        """
        Return (DAG, model, end) of each pair's last job that SUCCEEDED, the newest ones first.

        :param limit: at most this many pairs.
        """
        query = sa.select(_c.dag, _c.model, _c.ended_us).order_by(_c.ended_us.desc()).limit(limit)
        with self._engine.connect() as connection:
            return [(dag, model, from_us(ended)) for dag, model, ended in connection.execute(query)]
