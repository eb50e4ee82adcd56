"""
Two services on one PostgreSQL: one moves the jobs, the other can take over.

A trigger notes each change of a job with who made it, and who had the lease at that moment: they must be
the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from tests.integration.memory_process import MemoryProcess, memory_process
from tests.support.bed.paused_proxy import paused_proxy
from tests.support.bed.postgresql import PostgresServer
from tests.support.run_id import current_run
from tests.support.speed import scaled
from tests.support.waiting import wait_until
from training_service.loop import scheduler
from training_service.store.database import open_database

#: From the death of the active service to the next decision.
_TAKEOVER_SECONDS = 5.0
_AUDIT = """
CREATE TABLE audit (at timestamptz, writer text, holder text, job text);
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO audit SELECT clock_timestamp(), current_setting('application_name'), holder, NEW.job_id FROM leadership;
  RETURN NEW;
END $$;
CREATE TRIGGER jobs_change AFTER UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION note_change();
"""


class Pair:
    """Two services on one database; the first one is active."""

    def __init__(self, first: MemoryProcess, second: MemoryProcess, database: psycopg.Connection) -> None:
        self.active = first
        self.standby = second
        self._database = database

    def holder(self) -> str:
        """Return the name of the service that has the lease."""
        row = self._database.execute("SELECT holder FROM leadership").fetchone()
        assert row is not None
        return str(row[0])

    def foreign_writes(self) -> int:
        """Return how many changes of jobs came from a service without the lease."""
        row = self._database.execute("SELECT count(*) FROM audit WHERE writer <> holder").fetchone()
        assert row is not None
        return int(row[0])

    def writers(self) -> set[str]:
        """Return the names of all that have changed a job."""
        return {str(row[0]) for row in self._database.execute("SELECT DISTINCT writer FROM audit")}

    def end_sessions_of(self, name: str) -> None:
        """End all sessions of one service on the server, as its operator may."""
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        self._database.execute(query, (name,))


@pytest.fixture
def pair(postgresql: PostgresServer, tmp_path: Path) -> Iterator[Pair]:
    url = postgresql.make_database()
    open_database(url).dispose()
    name = url.partition("@/")[2].partition("?")[0]
    with ExitStack() as stack:
        database = stack.enter_context(postgresql.connect(name))
        database.execute(_AUDIT)
        first = stack.enter_context(memory_process(url, tmp_path, "first"))
        first.until_role("active")
        second = stack.enter_context(memory_process(url, tmp_path, "second"))
        yield Pair(first, second, database)


def test_a_job_that_the_standby_took_is_moved_by_the_active_one(pair: Pair) -> None:
    assert (pair.active.role(), pair.standby.role()) == ("active", "standby")
    pair.active.create("first")
    pair.active.until_succeeded("first")  # what is next is asked of a loop that has nothing to do
    began = time.monotonic()

    pair.standby.create("second")
    wait_until(lambda: pair.standby.state("second") != "QUEUED", "the job has left the queue")

    assert time.monotonic() - began < scheduler._IDLE_SECONDS
    pair.standby.until_succeeded("second")
    assert (pair.writers(), pair.foreign_writes()) == ({pair.holder()}, 0)


def test_the_standby_takes_over_when_the_active_one_is_killed(pair: Pair) -> None:
    pair.standby.create("job")
    before = pair.holder()

    pair.active.kill()
    began = time.monotonic()
    pair.standby.create("after")
    wait_until(lambda: pair.standby.state("after") != "QUEUED", "a decision of the next one")

    assert time.monotonic() - began < scaled(_TAKEOVER_SECONDS)
    assert (pair.standby.role(), pair.holder() == before) == ("active", False)
    pair.standby.until_succeeded("job")
    pair.standby.until_succeeded("after")
    assert pair.foreign_writes() == 0


@pytest.mark.extended
def test_an_active_one_that_was_frozen_writes_nothing_more_and_ends(pair: Pair) -> None:
    for place in range(30):
        pair.active.create(f"job{place}")
    before = pair.holder()
    wait_until(lambda: before in pair.writers(), "it has begun to move them")
    pair.active.freeze()  # in the middle of moving them

    pair.standby.until_role("active")
    pair.standby.create("after")
    pair.standby.until_succeeded("after")
    pair.active.go_on()
    pair.active.process.wait(scaled(60))

    assert pair.active.process.returncode != 0
    for place in range(30):
        pair.standby.until_succeeded(f"job{place}")
    assert (pair.standby.role(), pair.foreign_writes()) == ("active", 0)
    assert pair.writers() == {before, pair.holder()}


def test_an_active_one_whose_sessions_were_ended_goes_on_or_is_replaced(pair: Pair) -> None:
    before = pair.holder()
    pair.active.create("before")

    pair.end_sessions_of(before)
    pair.standby.create("after")

    for job_id in ("before", "after"):
        pair.standby.until_succeeded(job_id)
    assert pair.foreign_writes() == 0


def test_an_active_one_that_is_cut_off_from_the_database_is_replaced_and_ends(
    postgresql: PostgresServer, tmp_path: Path
) -> None:
    url = postgresql.make_database()
    socket = ".s.PGSQL.5432"
    folder = current_run().make_folder("proxy")
    cut_url = url.replace(quote(str(postgresql.folder), safe=""), quote(str(folder), safe=""))
    with (
        paused_proxy(folder / socket, postgresql.folder / socket) as network,
        memory_process(cut_url, tmp_path, "first") as first,
    ):
        first.until_role("active")
        with memory_process(url, tmp_path, "second") as second:
            network.pause()

            second.create("job")
            second.until_succeeded("job")
            network.go_on()

            assert first.process.wait(scaled(60)) != 0
            assert second.role() == "active"


@pytest.mark.extended
def test_a_frozen_standby_stops_nobody(pair: Pair) -> None:
    pair.standby.create("before")
    pair.standby.freeze()
    holder = pair.holder()

    pair.active.create("after")
    pair.active.until_succeeded("after")

    assert pair.holder() == holder
    pair.standby.go_on()
    pair.standby.until_role("standby")


def test_an_orderly_end_hands_over_at_once(pair: Pair) -> None:
    pair.active.process.terminate()
    pair.active.process.wait(scaled(60))
    began = time.monotonic()

    pair.standby.create("after")
    wait_until(lambda: pair.standby.state("after") != "QUEUED", "a decision of the next one")

    assert time.monotonic() - began < scaled(_TAKEOVER_SECONDS)
