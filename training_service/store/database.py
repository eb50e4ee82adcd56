"""
The database: its tables and their version, and how to write to it.

SQLite in WAL mode by default, PostgreSQL by URL.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import sqlalchemy as sa

from training_service.store.connections import Use, connect, is_in_memory
from training_service.store.logs.log_takeover import take_over_lines
from training_service.store.start_watch import SILENCE_SECONDS, call_while_answered
from training_service.store.tables import counters, leadership, log_lines, meta, metadata
from training_service.store.upgrade.migrations import MIGRATIONS, SCHEMA_VERSION

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Indices of earlier versions that others have replaced.
_FORMER_INDICES = (
    "jobs_by_state",
    "jobs_by_project",
    "jobs_by_time",
    "jobs_by_state_and_time",
    "jobs_in_queue",
    "trials_by_study_and_state",
)
#: The counter of the times at which lines of logs were stored, in microseconds since the epoch.
LOG_ARRIVALS = "log_arrivals"
#: The counter of jobs that were removed.
REMOVED_JOBS = "removed_jobs"
#: Of PostgreSQL's advisory locks: who makes or changes tables. Any number, as long as all services share it.
SCHEMA_LOCK = 8471
#: How long a request waits for a connection; far less than its caller does.
_API_WAIT_SECONDS = 3.0

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """
    One database, with a pool for each use.

    At most 42 connections in all, so that two services fit into PostgreSQL's default of 100.

    :param loop: moves jobs; on PostgreSQL, one connection has the lock that decides who does.
    :param intake: stores what containers produce.
    :param api: answers requests; what it commits survives a power cut.
    :param name: of this process among the database's clients; another one in every process.
    """

    loop: sa.Engine
    intake: sa.Engine
    api: sa.Engine
    name: str

    def while_answered(self, do: Callable[[], _Result]) -> _Result:
        """
        Return what ``do`` returns, which reads from this database while the service starts.

        :raises DatabaseSilent: the database keeps the connection and answers nothing.
        """
        return call_while_answered(do, self.loop, self.name)

    def dispose(self) -> None:
        """Close all connections that are not in use."""
        for engine in (self.loop, self.intake, self.api, self.api.get_execution_options().get("writer")):
            if engine is not None:
                engine.dispose()


def to_us(moment: datetime) -> int:
    """Return ``moment`` (aware) as microseconds since the epoch, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Return the aware UTC datetime of ``microseconds`` since the epoch, exactly."""
    return _EPOCH + microseconds * _MICROSECOND


def open_database(url: str) -> sa.Engine:
    """
    Return a pool of connections for all uses, with all tables made.

    A SQLite file's folder is made as well.

    :raises ValueError: the database was written by a newer version of the service.
    :raises DatabaseSilent: it keeps the connection and answers nothing.
    """
    use = Use(name=_new_name())
    engine = connect(sa.make_url(url), use)
    _prepare(engine, use.name, SILENCE_SECONDS)
    return engine


def open_databases(
    url: str,
    *,
    statement_seconds: float = 0.0,
    wait_seconds: float = _API_WAIT_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
) -> Databases:
    """
    Return a pool for each use, with all tables made.

    :param statement_seconds: how long a statement for a request may take; 0: any time.
    :param wait_seconds: how long a request waits for a connection.
    :param silence_seconds: how long the database may give no sign of work while the tables are made.
    :raises ValueError: the database was written by a newer version of the service.
    :raises DatabaseSilent: it keeps the connection and answers nothing.
    """
    parsed, name, turn = sa.make_url(url), _new_name(), threading.Lock()
    loop = connect(parsed, Use(connections=5, more=6, turn=turn, name=name))
    _prepare(loop, name, silence_seconds)
    if is_in_memory(parsed):
        return Databases(loop=loop, intake=loop, api=loop, name=name)
    intake = connect(parsed, Use(connections=3, more=5, turn=turn, name=name))
    asking = Use(turn=turn, name=name, wait_seconds=wait_seconds, statement_seconds=statement_seconds)
    writer = connect(parsed, replace(asking, connections=2, more=6, is_durable=True))
    reader = connect(parsed, replace(asking, connections=5, more=10))
    return Databases(loop=loop, intake=intake, api=reader.execution_options(writer=writer), name=name)


def _new_name() -> str:
    """Return what this process' connections are called on the server."""
    return f"training-service-{secrets.token_hex(6)}"


def _prepare(engine: sa.Engine, name: str, silence_seconds: float) -> None:
    """
    Make the tables, or bring them to this version; if that fails, close the pool.

    On PostgreSQL one process does so after the other; of SQLite, a file has one process anyway.
    """

    def prepare() -> None:
        try:
            with writing(engine).begin() as connection:
                is_new = _make_tables(connection)
            take_over_lines(engine)
            with writing(engine).begin() as connection:
                _begin_counting(connection)
                if not is_new:
                    _bring_indices_up_to_date(connection)
        except BaseException:
            engine.dispose()
            raise

    call_while_answered(prepare, engine, name, lock=SCHEMA_LOCK, silence_seconds=silence_seconds)


def _make_tables(connection: sa.Connection) -> bool:
    """Make the tables that are missing; return whether there was none before."""
    is_new = not sa.inspect(connection).has_table(meta.name)
    metadata.create_all(connection, checkfirst=not is_new)
    _put_default(connection, "schema_version", str(SCHEMA_VERSION))
    _put_default(connection, "service_id", secrets.token_hex(6))
    _migrate(connection)
    return is_new


def _migrate(connection: sa.Connection) -> None:
    """Bring the tables to this version. :raises ValueError: they are newer."""
    of_schema = meta.c.key == "schema_version"
    found = int(connection.execute(sa.select(meta.c.value).where(of_schema)).scalar_one())
    if found > SCHEMA_VERSION:
        raise ValueError(
            f"the database has schema version {found}, this service knows {SCHEMA_VERSION}; run a newer service"
        )
    for version in range(found + 1, SCHEMA_VERSION + 1):
        MIGRATIONS[version](connection)
    connection.execute(sa.update(meta).where(of_schema).values(value=str(SCHEMA_VERSION)))


def read_meta(engine: sa.Engine, key: str) -> str:
    """Return the value stored under ``key``; ``service_id`` marks a service's containers."""
    with engine.connect() as connection:
        return str(connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one())


def _begin_counting(connection: sa.Connection) -> None:
    known = set(connection.execute(sa.select(counters.c.name)).scalars())
    if LOG_ARRIVALS not in known:
        newest = connection.execute(sa.select(sa.func.max(log_lines.c.received_us))).scalar() or 0
        connection.execute(sa.insert(counters).values(name=LOG_ARRIVALS, value=newest))
    if REMOVED_JOBS not in known:
        connection.execute(sa.insert(counters).values(name=REMOVED_JOBS, value=0))
    if connection.execute(sa.select(leadership.c.token)).first() is None:
        connection.execute(sa.insert(leadership).values(token=0, holder="", renewed_at=_EPOCH))


def _bring_indices_up_to_date(connection: sa.Connection) -> None:
    """Update indices, which need no new schema version; ``create_all`` skips existing tables."""
    for table in metadata.sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    for name in _FORMER_INDICES:
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {name}")


def _put_default(connection: sa.Connection, key: str, value: str) -> None:
    if connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none() is None:
        connection.execute(sa.insert(meta).values(key=key, value=value))


#: The transactions of this thread that :meth:`Writer.together` has open, by pool.
_shared = threading.local()


class Writer:
    """
    Begins transactions that take the write lock at once.

    On SQLite, which has one writer at a time, the threads of this process queue up here. SQLite itself would
    sleep and retry with growing pauses, so that under load the last in line waits for many that came later.
    """

    def __init__(self, engine: sa.Engine) -> None:
        options = engine.get_execution_options()
        self._engine = options.get("writer", engine)
        self._turn = options.get("turn", nullcontext())
        self._fence = options.get("fence")
        self._pool = str(id(self._engine.pool))

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """
        One transaction; committed at the end of the block, rolled back by an exception.

        Within :meth:`together` it is a part of that transaction, and an exception rolls back this part alone.

        :raises NotActive: the engine has a fence, and another service moves the jobs now.
        """
        if shared := vars(_shared).get(self._pool):
            with shared.begin_nested():
                yield shared
            return
        with self._turn, self._engine.execution_options(immediate=True).begin() as connection:
            if self._fence:
                self._fence(connection)
            yield connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """
        Make one transaction of all that this thread writes within the block, on this pool.

        On PostgreSQL each write stays a transaction. Nobody waits for a single writer there, and
        transactions that lock many rows in different orders would deadlock.
        """
        if self._engine.name == "postgresql":
            yield
            return
        with self.begin() as connection:
            vars(_shared)[self._pool] = connection
            try:
                yield
            finally:
                del vars(_shared)[self._pool]


def writing(engine: sa.Engine) -> Writer:
    """Return what begins write transactions on ``engine``. They must not nest in one thread."""
    return Writer(engine)
