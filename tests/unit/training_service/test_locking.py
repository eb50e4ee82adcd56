"""One service a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from training_service.locking import DatabaseInUse, hold_database


def test_second_service_on_a_database_is_refused_by_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"

    with (
        hold_database(url),
        pytest.raises(DatabaseInUse, match=r"jobs\.db; stop it, or set TRAINING_DATABASE_URL"),
        hold_database(url),
    ):
        pass


def test_database_is_free_again_afterwards(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'sub' / 'jobs.db'}"
    with hold_database(url):
        pass

    with hold_database(url):
        assert (tmp_path / "sub" / "jobs.db.lock").exists()


def test_databases_in_memory_need_no_lock() -> None:
    with hold_database("sqlite://"), hold_database("sqlite://"):
        pass
