"""The space of removed rows goes back to the disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from training_service.store import compaction
from training_service.store.compaction import compact, give_back, gives_back
from training_service.store.database import open_database, writing
from training_service.store.tables import meta

ROWS = 300


def size_of(database: sa.Engine, path: Path) -> int:
    with database.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()
    return path.stat().st_size


def fill_and_empty(database: sa.Engine) -> None:
    rows = [{"key": f"row {number}", "value": "x" * 10_000} for number in range(ROWS)]
    with writing(database).begin() as connection:
        connection.execute(sa.insert(meta), rows)
    with writing(database).begin() as connection:
        connection.execute(sa.delete(meta).where(meta.c.key.like("row %")))


def test_a_new_database_shrinks_in_bounded_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_STEP_PAGES", 100)
    path = tmp_path / "jobs.db"
    database = open_database(f"sqlite:///{path}")
    fill_and_empty(database)
    before = size_of(database, path)

    steps = list(give_back(database))

    assert gives_back(database)
    assert before > ROWS * 10_000
    assert size_of(database, path) < before / 10
    assert max(steps) <= 100
    assert len(steps) > 5


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """A file that an earlier version made."""
    path = tmp_path / "former.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE meta (key VARCHAR(64) PRIMARY KEY, value TEXT NOT NULL)")
    return path


def test_a_former_database_shrinks_once_it_is_written_anew(former: Path) -> None:
    database = open_database(f"sqlite:///{former}")
    fill_and_empty(database)
    before = size_of(database, former)

    assert not gives_back(database)
    assert list(give_back(database)) == []
    compact(database)
    after = size_of(database, former)
    database.dispose()
    again = open_database(f"sqlite:///{former}")
    fill_and_empty(again)

    assert after < before / 10
    assert gives_back(again)
    assert sum(give_back(again)) > 0


def test_a_connection_to_a_database_that_is_being_written_does_not_wait(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'jobs.db'}")
    with writing(database).begin(), closing(database.raw_connection()) as other:
        assert other.cursor().execute("PRAGMA auto_vacuum").fetchone() == (2,)
