"""One service a database: two would move the same jobs at once."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from training_api.errors import TrainingError


class DatabaseInUse(TrainingError):
    """Another process serves this database."""


@contextmanager
def hold_database(url: str) -> Iterator[None]:
    """
    Hold the database for this process; the lock ends with the process, however it ends.

    SQLite only: on PostgreSQL several services may run, of which one moves the jobs
    (``store/leadership.py``).

    :raises DatabaseInUse: another process holds it.
    """
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        yield
        return
    path = Path(f"{parsed.database}.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DatabaseInUse(
                f"another training service runs on {parsed.database}; stop it, or set TRAINING_DATABASE_URL"
            ) from error
        yield
