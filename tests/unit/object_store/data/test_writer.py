"""Changes that share a commit: each is whole or not at all, and nobody waits for ever."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from object_store.data.writer import Writer
from tests.support.speed import scaled


class Connection(sqlite3.Connection):
    """One whose statements fail when the test says so."""

    failing = ""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if self.failing and sql.startswith(self.failing):
            error = sqlite3.OperationalError("database or disk is full")
            if self.in_transaction:
                super().execute("ROLLBACK")
            raise error
        return super().execute(sql, *arguments)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "test.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
    connection.close()
    return path


@pytest.fixture
def connections() -> list[Connection]:
    return []


@pytest.fixture
def writer(path: Path, connections: list[Connection]) -> Iterator[Writer]:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=Connection)
        connections.append(connection)
        return connection

    writer = Writer(connect)
    yield writer
    writer.close()


def insert(number: int) -> Callable[[sqlite3.Connection], int]:
    def change(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO numbers VALUES (?)", (number,))
        return number

    return change


def insert_and_fail(number: int) -> Callable[[sqlite3.Connection], int]:
    def change(connection: sqlite3.Connection) -> int:
        insert(number)(connection)
        raise LookupError(number)

    return change


def stored(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    numbers = [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY number")]
    connection.close()
    return numbers


def hold(writer: Writer) -> threading.Event:
    """Let the writer wait, so that what is submitted meanwhile shares the next commit."""
    begun, event = threading.Event(), threading.Event()
    writer.submit(lambda _: (begun.set(), event.wait(scaled(60))))
    begun.wait(scaled(60))
    return event


def test_a_change_that_raises_is_rolled_back_and_the_others_stay(writer: Writer, path: Path) -> None:
    event = hold(writer)
    first, second, third = (
        writer.submit(insert(1)),
        writer.submit(insert_and_fail(2)),
        writer.submit(insert(3)),
    )
    twice = writer.submit(insert(3))
    event.set()

    assert (first.result(60), third.result(60)) == (1, 3)
    with pytest.raises(LookupError):
        second.result(60)
    with pytest.raises(sqlite3.IntegrityError):
        twice.result(60)
    assert stored(path) == [1, 3]


def test_changes_run_in_the_order_in_which_they_came(writer: Writer) -> None:
    seen: list[int] = []
    for number in range(200):
        future = writer.submit(lambda _, number=number: seen.append(number))

    future.result(60)
    assert seen == list(range(200))


@pytest.mark.parametrize("statement", ["COMMIT", "BEGIN", "SAVEPOINT", "RELEASE"])
def test_a_commit_that_fails_fails_for_all_and_the_next_one_works(
    statement: str, writer: Writer, path: Path, connections: list[Connection]
) -> None:
    writer.submit(insert(1)).result(60)
    event = hold(writer)
    futures = [writer.submit(insert(2)), writer.submit(insert(3))]
    connections[0].failing = statement
    event.set()

    for future in futures:
        with pytest.raises(sqlite3.OperationalError, match="full"):
            future.result(60)
    connections[0].failing = ""
    assert writer.submit(insert(4)).result(60) == 4
    assert stored(path) == [1, 4]


def test_a_full_disk_in_the_middle_is_told_to_all_as_it_is(
    writer: Writer, path: Path, connections: list[Connection]
) -> None:
    event = hold(writer)
    futures = [writer.submit(insert(1)), writer.submit(insert(2)), writer.submit(insert(3))]
    # SQLite has then rolled back all of it already.
    connections[0].failing = "INSERT INTO numbers"
    event.set()

    for future in futures:
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            future.result(60)
    connections[0].failing = ""
    assert writer.submit(insert(4)).result(60) == 4
    assert stored(path) == [4]


def test_close_finishes_what_was_submitted(writer: Writer, path: Path) -> None:
    event = hold(writer)
    futures = [writer.submit(insert(number)) for number in range(150)]
    threading.Timer(0.05, event.set).start()

    writer.close()

    assert all(future.done() for future in futures)
    assert stored(path) == list(range(150))


def test_a_change_after_the_close_is_refused_and_not_waited_for(writer: Writer) -> None:
    writer.close()
    writer.close()

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        writer.submit(insert(1))


def test_who_is_refused_sees_what_refused_it(writer: Writer, path: Path) -> None:
    """The refusal may be for a change of the same commit, which is not there before it."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        begun.set()
        go_on.wait(scaled(60))

    seen: list[int] = []

    def look(_: object) -> None:
        connection = sqlite3.connect(path)
        seen.extend(connection.execute("SELECT count(*) FROM numbers").fetchone())
        connection.close()

    held = writer.submit(hold)
    assert begun.wait(scaled(60))
    first, second = writer.submit(insert(1)), writer.submit(insert(1))
    second.add_done_callback(look)
    go_on.set()

    assert held.result(30) is None
    assert first.result(30) == 1
    with pytest.raises(sqlite3.IntegrityError):
        second.result(30)
    writer.close()
    assert seen == [1]
