"""
Pools of connections to one database, one per use, so that none can exhaust another's.

A pool is an SQLAlchemy engine. Its execution options carry what
:func:`training_service.store.database.writing` needs: ``turn`` (the lock of this process's writers),
    ``writer`` (the pool that writes for this one), and ``fence``.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from training_api.errors import TrainingError
from training_service.store.plain_text import json_text

#: After this time without an answer the kernel gives a server up; Linux, libpq 12 or newer.
_SILENCE_MS = 10_000
#: A session that holds locks and is idle for this long belongs to a process that is frozen or cut off.
_IDLE_IN_TRANSACTION_MS = 10_000
#: Of libpq's connections; what the URL says wins.
_LIBPQ = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": _SILENCE_MS,
}
_LIBPQ_DRIVERS = frozenset({"postgresql", "postgresql+psycopg", "postgresql+psycopg2"})
#: How long a connection waits for a lock of SQLite's, and how often it tries to turn to WAL meanwhile.
_LOCK_SECONDS = 30.0
_WAL_TRY_SECONDS = 0.02
#: How often SQLite checks whether a statement must end: instructions, about a millisecond.
_INSTRUCTIONS = 50_000


class DriverMissing(TrainingError):
    """The database's driver is not installed; the message says how to install it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """
    What a pool is for.

    :param connections: how many are kept open.
    :param more: how many more may be opened briefly.
    :param wait_seconds: how long to wait for a free one before ``sqlalchemy.exc.TimeoutError``.
    :param statement_seconds: how long one statement may take before ``sqlalchemy.exc.OperationalError``; 0:
        no limit.
    :param is_durable: commits survive a power cut. For SQLite; on PostgreSQL the server's settings decide.
    :param name: of the process, as PostgreSQL shows it (``application_name``).
    """

    connections: int = 5
    more: int = 10
    wait_seconds: float = 30.0
    statement_seconds: float = 0.0
    is_durable: bool = False
    name: str = "training-service"
    #: Shared by all pools of a process that write to one SQLite file.
    turn: AbstractContextManager[Any] = field(default_factory=threading.Lock)


def connect(url: sa.URL, use: Use) -> sa.Engine:
    """
    Return a pool of connections to ``url``; a SQLite file's folder is made.

    :raises DriverMissing: the extra ``postgresql`` is needed and not installed.
    """
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, use)
    try:
        return _postgresql(url, use)
    except ModuleNotFoundError as error:
        raise DriverMissing(
            f"the database {url.render_as_string()} needs the Python package {error.name}: "
            "pip install 'container-training-service[postgresql]', with a URL that begins with postgresql+psycopg://"
        ) from error


def is_in_memory(url: sa.URL) -> bool:
    """Tell whether each pool would have a database of its own."""
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def _postgresql(url: sa.URL, use: Use) -> sa.Engine:
    arguments = _LIBPQ if url.drivername in _LIBPQ_DRIVERS else {}
    engine = sa.create_engine(
        url,
        pool_pre_ping=True,
        hide_parameters=True,  # an error names the statement, not the lines of a log that it had
        pool_size=use.connections,
        max_overflow=use.more,
        pool_timeout=use.wait_seconds,
        connect_args={name: value for name, value in arguments.items() if name not in url.query},
        json_serializer=json_text,
        execution_options={"turn": nullcontext()},
    )

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET application_name = '{use.name}'")
                cursor.execute(f"SET idle_in_transaction_session_timeout = {_IDLE_IN_TRANSACTION_MS}")
                cursor.execute(f"SET statement_timeout = {int(use.statement_seconds * 1000)}")
            connection.commit()
        except BaseException:
            # The pool does not have it yet, and would leave it open.
            connection.close()
            raise

    return engine


def _sqlite(url: sa.URL, use: Use) -> sa.Engine:
    pool: dict[str, Any] = {}
    if not is_in_memory(url):
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
        pool = {"pool_size": use.connections, "max_overflow": use.more, "pool_timeout": use.wait_seconds}
    engine = sa.create_engine(
        url,
        connect_args={"timeout": _LOCK_SECONDS, "check_same_thread": False},
        hide_parameters=True,
        json_serializer=json_text,
        json_deserializer=_read_json,
        execution_options={"turn": use.turn},
        **pool,
    )

    @sa.event.listens_for(engine, "connect")
    def _configure(connection: Any, record: Any) -> None:
        # The hook below begins transactions, not the driver: see SQLAlchemy's SQLite notes.
        connection.isolation_level = None
        if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            # Only an empty database accepts it; in any other it would be a write at each connection.
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        _turn_to_wal(connection)
        connection.execute(f"PRAGMA synchronous={'FULL' if use.is_durable else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys=ON")
        if use.statement_seconds:
            info = record.info
            connection.set_progress_handler(lambda: time.monotonic() > info["ends_at"], _INSTRUCTIONS)
            info["ends_at"] = float("inf")

    if use.statement_seconds:

        @sa.event.listens_for(engine, "before_cursor_execute")
        def _limit(connection: sa.Connection, *_: Any) -> None:
            connection.info["ends_at"] = time.monotonic() + use.statement_seconds

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # A transaction that will write takes the lock at once: two writers then queue up and cannot deadlock.
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _turn_to_wal(connection: sqlite3.Connection) -> None:
    """
    Give the file a write-ahead log, which it keeps from then on.

    Two connections that do so at once to a new file wait for each other; SQLite refuses one of them at once,
    whatever its timeout.

    :raises sqlite3.OperationalError: the file stays locked for 30 s, or cannot be written.
    """
    give_up_at = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
        time.sleep(_WAL_TRY_SECONDS)


def _read_json(text: str) -> Any:
    """Return the value of a JSON column; ``None``, which stops no query, if it is invalid."""
    try:
        return json.loads(text)
    except ValueError:
        return None
