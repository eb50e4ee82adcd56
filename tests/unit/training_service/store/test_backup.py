"""
What a backup refuses, and what it leaves behind.

That it can be restored: tests/contract/test_backup.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from training_service.store.backup import CannotBackUp, back_up
from training_service.store.database import open_database


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    open_database(url).dispose()
    return url


def test_a_backup_is_one_file_that_only_its_owner_reads(url: str, tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()

    back_up(url, tmp_path / "copies" / "jobs.db")

    (file,) = (tmp_path / "copies").iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("jobs.db", 0o600)


def test_a_file_that_exists_is_left_as_it_is(url: str, tmp_path: Path) -> None:
    file = tmp_path / "copy.db"
    file.write_text("yesterday's")

    with pytest.raises(CannotBackUp, match=r"copy\.db exists"):
        back_up(url, file)

    assert file.read_text() == "yesterday's"


def test_what_a_backup_that_was_killed_has_left_is_overwritten(url: str, tmp_path: Path) -> None:
    (tmp_path / "copy.db.partial").write_text("half")

    back_up(url, tmp_path / "copy.db")

    assert not (tmp_path / "copy.db.partial").exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql+psycopg://user:secret@host/db", "pg_dump"),
        ("sqlite:////nowhere/jobs.db", "there is no database /nowhere/jobs.db"),
        ("sqlite://", "copies SQLite files"),
    ],
)
def test_what_cannot_be_copied_is_said(url: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CannotBackUp, match=message) as refusal:
        back_up(url, tmp_path / "copy.db")

    assert "secret" not in str(refusal.value)


def test_a_damaged_database_makes_no_backup(tmp_path: Path) -> None:
    (tmp_path / "jobs.db").write_bytes(b"no database at all, but long enough to be read" * 100)

    with pytest.raises(CannotBackUp, match="failed"):
        back_up(f"sqlite:///{tmp_path / 'jobs.db'}", tmp_path / "copy.db")

    assert {path.name for path in tmp_path.iterdir()} == {"jobs.db"}
