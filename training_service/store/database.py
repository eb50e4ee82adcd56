"""Connections and versions of the tables: SQLite in WAL mode by default, PostgreSQL by URL."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from training_service.store.migrations import MIGRATIONS, SCHEMA_VERSION
from training_service.store.tables import meta, metadata

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Indices of earlier versions that others have replaced.
_FORMER_INDICES = (
    "jobs_by_state",
    "jobs_by_project",
    "jobs_by_time",
    "jobs_by_state_and_time",
    "jobs_in_queue",
)

#: One lock a database: all engines made by ``execution_options`` share their pool.
_turns: WeakKeyDictionary[sa.Pool, AbstractContextManager[Any]] = WeakKeyDictionary()


def to_us(moment: datetime) -> int:
    """Return ``moment`` (aware) as microseconds since the epoch, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Return the aware UTC datetime of ``microseconds`` since the epoch, exactly."""
    return _EPOCH + microseconds * _MICROSECOND


def open_database(url: str) -> sa.Engine:
    """
    Return a connected engine with all tables made.

    A SQLite file's folder is made as well.

    :raises ValueError: the database was written by a newer version of the service.
    """
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = _open_sqlite(parsed)
    else:
        engine = sa.create_engine(parsed, pool_pre_ping=True)
    metadata.create_all(engine)
    with engine.begin() as connection:
        _put_default(connection, "schema_version", str(SCHEMA_VERSION))
        _put_default(connection, "service_id", secrets.token_hex(6))
    _migrate(engine)
    _bring_indices_up_to_date(engine)
    return engine


def _migrate(engine: sa.Engine) -> None:
    """Bring the tables to this version, one version a transaction. :raises ValueError: they are newer."""
    found = int(read_meta(engine, "schema_version"))
    if found > SCHEMA_VERSION:
        raise ValueError(
            f"the database has schema version {found}, this service knows {SCHEMA_VERSION}; run a newer service"
        )
    for version in range(found + 1, SCHEMA_VERSION + 1):
        with writing(engine).begin() as connection:
            MIGRATIONS[version](connection)
            of_schema = sa.update(meta).where(meta.c.key == "schema_version")
            connection.execute(of_schema.values(value=str(version)))


def read_meta(engine: sa.Engine, key: str) -> str:
    """Return the value kept under ``key``; ``service_id`` tells one service's containers from another's."""
    with engine.connect() as connection:
        return str(connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one())


def _open_sqlite(url: sa.URL) -> sa.Engine:
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    connect_args = {"timeout": 30, "check_same_thread": False}
    engine = sa.create_engine(url, connect_args=connect_args, json_deserializer=_read_json)

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # Transactions are begun by the hook below, not by the driver: see SQLAlchemy's SQLite notes.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # A transaction that will write takes the lock at once, so that two writers queue up instead of deadlocking.
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _read_json(text: str) -> Any:
    """Return the value of a column of JSON; ``None`` for what is none, so that one row does not stop a query."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _bring_indices_up_to_date(engine: sa.Engine) -> None:
    """``create_all`` leaves tables that exist as they are; indices may change without a new schema version."""
    with writing(engine).begin() as connection:
        for table in metadata.sorted_tables:
            for index in table.indexes:
                index.create(connection, checkfirst=True)
        for name in _FORMER_INDICES:
            connection.exec_driver_sql(f"DROP INDEX IF EXISTS {name}")


def _put_default(connection: sa.Connection, key: str, value: str) -> None:
    if connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none() is None:
        connection.execute(sa.insert(meta).values(key=key, value=value))


class Writer:
    """
    Begins transactions that take the write lock at once.

    On SQLite, which has one writer at a time, the threads of this process queue up here: its own way of waiting is to
    sleep and try again, ever longer, so that under load the last in line waits for many that came later.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._turn = (
            _turns.setdefault(engine.pool, threading.Lock()) if engine.name == "sqlite" else nullcontext()
        )

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """One transaction; committed at the end of the block, rolled back by an exception."""
        with self._turn, self._engine.execution_options(immediate=True).begin() as connection:
            yield connection


def writing(engine: sa.Engine) -> Writer:
    """Return what begins write transactions on ``engine``. They must not nest in one thread."""
    return Writer(engine)
