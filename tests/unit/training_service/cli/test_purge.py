"""``purge`` on a database: what it says, and what it removes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from container_engines.memory.engine import MemoryEngine
from tests.support.fakes.ended_jobs import end_job, job_ids, orphaned_rows
from tests.support.fakes.world import World
from training_api.states import JobState
from training_service.cli.parser import main
from training_service.locking import hold_database
from training_service.store.database import open_database


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def present(path: Path) -> Iterator[World]:
    """A service whose clock is today's."""
    engine = MemoryEngine()
    engine.now = datetime.now(UTC)
    world = World(open_database(f"sqlite:///{path}"), engine=engine)
    yield world
    world.database.dispose()


def purge(path: Path, *arguments: str) -> int:
    return main(["purge", "--database-url", f"sqlite:///{path}", *arguments])


def test_without_yes_it_says_what_would_go_and_removes_nothing(
    present: World, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_job(present, "old", trials=2)
    end_job(present, "young", days_ago=80)

    assert purge(path) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        "would remove 1 jobs, 2 trials, 9 measurements, 9 usage samples, 9 gpu samples, 3 spans, "
    )
    assert "3 log entries" in told
    assert "bytes of log; --yes does it" in told
    assert job_ids(present.database) == ["old", "young"]


def test_with_yes_it_removes_them_beside_a_running_service(
    present: World, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_job(present, "old", trials=2)
    present.submit("waits")

    with hold_database(f"sqlite:///{path}"):
        assert purge(path, "--yes") == 0

    assert capsys.readouterr().out.startswith("removed 1 jobs, 2 trials")
    assert job_ids(present.database) == ["waits"]
    assert orphaned_rows(present.database) == {}


def test_the_choice_is_by_age_project_and_state(present: World, path: Path) -> None:
    end_job(present, "good", days_ago=10)
    end_job(present, "failed", days_ago=10, state=JobState.FAILED)
    end_job(present, "cancelled", days_ago=10, state=JobState.CANCELLED)
    end_job(present, "other", days_ago=10, state=JobState.FAILED, project="another-project")
    end_job(present, "young", days_ago=5, state=JobState.FAILED)
    choice = ("--older-than", "1w", "--project", "project", "--state", "failed", "--state", "cancelled")

    assert purge(path, *choice, "--yes") == 0

    assert job_ids(present.database) == ["good", "other", "young"]


def test_nothing_to_remove_is_said(present: World, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    present.submit()

    assert purge(path) == purge(path, "--yes") == 0
    assert capsys.readouterr().out == "nothing would go\nnothing was removed\n"


@pytest.mark.parametrize("age", ["0h", "90", "-1d", "1.5d", "d", "100000d"])
def test_an_age_that_is_none_is_refused(path: Path, age: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        purge(path, f"--older-than={age}")

    assert f"1h at least; got {age!r}" in capsys.readouterr().err


def test_a_file_of_an_earlier_version_is_made_compact_while_no_service_runs(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE former (text TEXT)")
        connection.execute("INSERT INTO former VALUES (?)", ["x" * 1_000_000])
        connection.execute("DELETE FROM former")
        connection.commit()
    before = path.stat().st_size
    url = f"sqlite:///{path}"

    assert purge(path, "--yes") == 0
    hint = capsys.readouterr().err
    with hold_database(url):
        assert purge(path, "--yes", "--compact") == 1
    refusal = capsys.readouterr().err
    assert purge(path, "--yes", "--compact") == 0

    assert "purge --yes --compact once" in hint
    assert refusal.startswith("error: another training service runs on ")
    assert path.stat().st_size < before / 2
    with open_database(url).connect() as connection:
        assert connection.execute(sa.text("PRAGMA auto_vacuum")).scalar() == 2


def test_a_database_that_is_not_there_is_not_made(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert purge(path, "--yes") == 1

    assert capsys.readouterr().err.startswith(f"error: there is no database at '{path}'")
    assert not path.exists()
