"""Returns the space of removed rows to the disk, for SQLite; PostgreSQL has autovacuum."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import sqlalchemy as sa

_INCREMENTAL = 2
#: Pages that one transaction gives back: 4 MiB.
_STEP_PAGES = 1000


def gives_back(engine: sa.Engine) -> bool:
    """Whether the database returns space while in use; SQLite files of earlier versions do not."""
    if engine.name != "sqlite":
        return True
    with engine.connect() as connection:
        return bool(connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == _INCREMENTAL)


def give_back(engine: sa.Engine) -> Iterator[int]:
    """Shrink a SQLite file by its free pages; yields how many, after each transaction."""
    if engine.name != "sqlite" or not gives_back(engine):
        return
    while free := _free_pages(engine):
        with closing(engine.raw_connection()) as connection:
            # As a script: the driver steps a plain statement only once, which frees one page.
            connection.cursor().executescript(f"PRAGMA incremental_vacuum({_STEP_PAGES})")
        gone = free - _free_pages(engine)
        if gone <= 0:
            return
        yield gone


def compact(engine: sa.Engine) -> None:
    """
    Rewrite a SQLite file without free space, and have it return space from now on.

    Needs as much free disk space as the database has, and exclusive use of it. Does nothing on PostgreSQL.
    """
    if engine.name != "sqlite":
        return
    # VACUUM runs in no transaction, and SQLAlchemy's connections begin one.
    with closing(engine.raw_connection()) as connection:
        cursor = connection.cursor()
        for statement in ("PRAGMA auto_vacuum=INCREMENTAL", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            cursor.execute(statement)
        cursor.close()


def _free_pages(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return int(connection.exec_driver_sql("PRAGMA freelist_count").scalar() or 0)
