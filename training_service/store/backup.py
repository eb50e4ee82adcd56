"""A copy of a SQLite database, made while the service runs. PostgreSQL has its own tools."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from training_api.errors import TrainingError
from training_service.store.connections import is_in_memory

#: Jobs and their logs may be nobody else's to read.
_MODE = 0o600


class CannotBackUp(TrainingError):
    """The database cannot be copied; says what to do."""


def back_up(url: str, file: Path) -> None:
    """
    Write all that was committed when this began to ``file``, as one whole database.

    The service may run and write meanwhile. A file that is there is complete: it gets its name last.

    :raises CannotBackUp: the database is no SQLite file, or ``file`` exists or cannot be written.
    """
    source = _source(sa.make_url(url))
    if file.exists():
        raise CannotBackUp(f"{file} exists; name a file that does not, or remove it")
    partial = file.with_name(f"{file.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _MODE)
        os.close(handle)
        _copy(source, partial)
        partial.rename(file)
    except CannotBackUp:
        partial.unlink(missing_ok=True)
        raise
    except (OSError, sqlite3.Error) as error:
        partial.unlink(missing_ok=True)
        raise CannotBackUp(f"the copy of {source} to {file} failed: {error}") from error


def _source(url: sa.URL) -> Path:
    if url.get_backend_name() != "sqlite" or is_in_memory(url):
        raise CannotBackUp(
            f"this command copies SQLite files, and the database is {url.render_as_string()}; "
            "use pg_dump for PostgreSQL (docs/operation.md)"
        )
    source = Path(str(url.database))
    if not source.is_file():
        raise CannotBackUp(f"there is no database {source}; set TRAINING_DATABASE_URL or --database-url")
    return source


def _copy(source: Path, partial: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as reader,
        closing(sqlite3.connect(partial)) as writer,
    ):
        # All pages at once: one state of the database, which in WAL mode holds no writer up.
        reader.backup(writer)
        # One file, without a log of its own beside it.
        writer.execute("PRAGMA journal_mode=DELETE")
        (answer,) = writer.execute("PRAGMA quick_check(1)").fetchone()
        if answer != "ok":
            raise CannotBackUp(f"the database {source} is damaged: {answer}")
    handle = os.open(partial, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
