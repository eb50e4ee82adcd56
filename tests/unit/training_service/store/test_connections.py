"""A database whose driver is missing, and a new file that several services open at once."""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from training_service.store.connections import DriverMissing, Use, connect


def test_a_missing_driver_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pg8000", None)
    url = sa.make_url("postgresql+pg8000://user:secret@host/database")

    with pytest.raises(DriverMissing, match=r"container-training-service\[postgresql\]") as refusal:
        connect(url, Use())

    assert "secret" not in str(refusal.value)


def test_a_new_file_that_another_service_writes_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE numbers (number INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(0.2, other.execute, args=("COMMIT",))
        end.start()

        database = connect(sa.make_url(f"sqlite:///{path}"), Use())
        with database.connect() as connection:
            mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()

        end.join()
        database.dispose()
    assert mode == "wal"
