"""A service gives up its start when the database hangs, and never while the database works."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from tests.support.bed.faulty_proxy import Fault, FaultyProxy
from tests.support.bed.postgresql import PostgresServer
from tests.support.speed import drawn_out, scaled
from training_service.store import connections, database
from training_service.store.database import Databases, open_databases
from training_service.store.start_watch import DatabaseSilent

pytestmark = pytest.mark.postgresql

#: Of the tests' watch.
SILENCE = drawn_out(2.5)


@pytest.fixture(autouse=True)
def patient_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the driver wait longer for a connection than the watch does."""
    monkeypatch.setitem(connections._LIBPQ, "connect_timeout", 600)


@pytest.fixture
def network(postgresql: PostgresServer) -> Iterator[FaultyProxy]:
    with FaultyProxy(postgresql.socket) as network:
        yield network


@pytest.fixture
def before_tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[sa.Connection], object]], None]:
    """Return a function that has something done right before the tables are made."""
    make_tables = database._make_tables

    def before_tables(do: Callable[[sa.Connection], object]) -> None:
        def make(connection: sa.Connection) -> None:
            monkeypatch.setattr(database, "_make_tables", make_tables)
            do(connection)
            make_tables(connection)

        monkeypatch.setattr(database, "_make_tables", make)

    return before_tables


def open_in_time(url: str) -> Databases:
    """Open the database; fails if that neither works nor ends in time."""
    began = time.monotonic()
    try:
        return open_databases(url, silence_seconds=SILENCE)
    finally:
        assert time.monotonic() - began < SILENCE + scaled(15)


def test_a_database_that_accepts_and_never_answers_is_given_up(
    postgresql: PostgresServer, network: FaultyProxy
) -> None:
    url = postgresql.make_database(port=network.port)
    network.suffer(Fault.HALF_OPEN)

    with pytest.raises(DatabaseSilent, match=r"keeps the connection and has answered nothing for [0-9]+ s"):
        open_in_time(url)

    network.heal()
    open_databases(url).dispose()


def test_a_database_that_hangs_while_the_tables_are_made_is_given_up_and_left_free(
    postgresql: PostgresServer,
    network: FaultyProxy,
    before_tables: Callable[[Callable[[sa.Connection], object]], None],
) -> None:
    url = postgresql.make_database(port=network.port)
    before_tables(lambda _: network.suffer(Fault.HALF_OPEN))

    with pytest.raises(DatabaseSilent):
        open_in_time(url)

    # The server still has the sessions of the one that hung.
    network.heal()
    open_databases(url).dispose()


def test_an_answer_that_was_lost_is_not_waited_for(
    postgresql: PostgresServer, before_tables: Callable[[Callable[[sa.Connection], object]], None]
) -> None:
    is_over = threading.Event()

    def wait_for_ever(connection: sa.Connection) -> None:
        connection.execute(sa.text("SELECT 1"))
        is_over.wait()
        raise ConnectionError("the test is over")

    before_tables(wait_for_ever)

    with pytest.raises(DatabaseSilent):
        open_in_time(postgresql.make_database())

    is_over.set()


@pytest.mark.extended
def test_a_migration_may_take_longer_than_the_silence(
    postgresql: PostgresServer, before_tables: Callable[[Callable[[sa.Connection], object]], None]
) -> None:
    work = sa.text("SELECT pg_sleep(:seconds)")
    before_tables(lambda connection: connection.execute(work, {"seconds": 2 * SILENCE}))

    open_databases(postgresql.make_database(), silence_seconds=SILENCE).dispose()


@pytest.mark.extended
def test_one_that_waits_for_the_migration_of_another_is_not_given_up(
    postgresql: PostgresServer, before_tables: Callable[[Callable[[sa.Connection], object]], None]
) -> None:
    url, has_begun = postgresql.make_database(), threading.Event()

    def migrate(connection: sa.Connection) -> None:
        has_begun.set()
        connection.execute(sa.text("SELECT pg_sleep(:seconds)"), {"seconds": 2 * SILENCE})

    before_tables(migrate)
    first = threading.Thread(target=lambda: open_databases(url).dispose())
    first.start()
    assert has_begun.wait(scaled(20))

    open_databases(url, silence_seconds=SILENCE).dispose()

    first.join()
