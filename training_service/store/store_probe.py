"""Whether the database can be read and written."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from training_service.model.clock import Clock, utc_now
from training_service.store.database import writing
from training_service.store.tables import meta

_KEY = "last_probe"


def store_probe(engine: sa.Engine, clock: Clock = utc_now) -> Callable[[], None]:
    """
    Return a function that writes one row and reads it back, as slowly as the database does.

    It raises ``SQLAlchemyError`` if the database refuses, and ``LookupError`` if the row is lost.
    """

    def probe() -> None:
        value = clock().isoformat()
        row = meta.c.key == _KEY
        with writing(engine).begin() as connection:
            if connection.execute(sa.update(meta).where(row).values(value=value)).rowcount == 0:
                connection.execute(sa.insert(meta).values(key=_KEY, value=value))
        with engine.connect() as connection:
            if connection.scalar(sa.select(meta.c.value).where(row)) is None:
                raise LookupError("the row that was just written is not there")

    return probe
