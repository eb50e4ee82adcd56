"""Tables and connections: SQLite in WAL mode by default, PostgreSQL by URL."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa

#: Grows when the tables change; a service refuses a database that is newer than itself.
SCHEMA_VERSION = "3"
#: What brings the tables of the version before to a version; new tables are made anyway.
_MIGRATIONS: Mapping[str, tuple[str, ...]] = {
    "2": (
        "ALTER TABLE jobs ADD COLUMN images JSON NOT NULL DEFAULT '{}'",
        "ALTER TABLE jobs ADD COLUMN attempts JSON NOT NULL DEFAULT '{}'",
        "ALTER TABLE jobs ADD COLUMN outcome VARCHAR(16) NOT NULL DEFAULT ''",
        "ALTER TABLE jobs DROP COLUMN image_id",
    ),
    "3": (
        "ALTER TABLE jobs ADD COLUMN study_uid VARCHAR(32) NOT NULL DEFAULT ''",
        "ALTER TABLE jobs ADD COLUMN trial JSON NOT NULL DEFAULT '{}'",
    ),
}
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

metadata = sa.MetaData()
#: SQLite grows a rowid only for INTEGER keys, PostgreSQL wants BIGINT.
_BigKey = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("sequence", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("uid", sa.String(32), nullable=False, unique=True),
    sa.Column("project", sa.String(128), nullable=False),
    sa.Column("job_id", sa.String(128), nullable=False),
    sa.Column("labels", sa.JSON, nullable=False),
    sa.Column("training_input", sa.JSON, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("created_us", sa.BigInteger, nullable=False),
    sa.Column("preparing_us", sa.BigInteger),
    sa.Column("running_us", sa.BigInteger),
    sa.Column("ended_us", sa.BigInteger),
    sa.Column("error_message", sa.Text, nullable=False, default=""),
    sa.Column("images", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("attempts", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("outcome", sa.String(16), nullable=False, server_default=""),
    sa.Column("version", sa.Integer, nullable=False, default=1),
    # A trial is a row of its own, which the API's list does not show: its job_id is one that no job can have.
    sa.Column("study_uid", sa.String(32), nullable=False, server_default=""),
    sa.Column("trial", sa.JSON, nullable=False, server_default="{}"),
    sa.UniqueConstraint("project", "job_id"),
)
#: Not a trial. Written out, without a parameter: only so do the indices below serve.
is_job = jobs.c.study_uid == sa.literal_column("''")
# The list of a project, and of those in one state, newest first.
for _name, _columns in {
    "whole_jobs_by_time": (jobs.c.project, jobs.c.created_us, jobs.c.sequence),
    "whole_jobs_by_state_and_time": (jobs.c.project, jobs.c.state, jobs.c.created_us, jobs.c.sequence),
    # What has changed of late, for those who wait for many.
    "whole_jobs_by_start": (jobs.c.project, jobs.c.running_us),
    "whole_jobs_by_end": (jobs.c.project, jobs.c.ended_us),
    # The queue in its order, and the number of jobs by state.
    "whole_jobs_in_queue": (jobs.c.state, jobs.c.priority.desc(), jobs.c.sequence),
}.items():
    sa.Index(_name, *_columns, sqlite_where=is_job, postgresql_where=is_job)
sa.Index("trials_by_study_and_state", jobs.c.study_uid, jobs.c.state)
#: What has not ended, jobs and trials alike.
sa.Index("jobs_by_state_and_sequence", jobs.c.state, jobs.c.sequence)

#: IAM policies by resource name; a resource without a row has the empty policy.
policies = sa.Table(
    "policies",
    metadata,
    sa.Column("resource", sa.String(512), primary_key=True),
    sa.Column("policy", sa.JSON, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
)

log_entries = sa.Table(
    "log_entries",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("project", sa.String(128), nullable=False),
    sa.Column("job_id", sa.String(128), nullable=False),
    sa.Column("task_name", sa.String(64), nullable=False),
    sa.Column("trial_id", sa.String(16), nullable=False, default=""),
    sa.Column("insert_id", sa.String(64), nullable=False),
    sa.Column("timestamp_us", sa.BigInteger, nullable=False),
    sa.Column("received_us", sa.BigInteger, nullable=False),
    sa.Column("severity", sa.String(16), nullable=False),
    sa.Column("text_payload", sa.Text),
    sa.Column("json_payload", sa.JSON(none_as_null=True)),
    sa.UniqueConstraint("project", "job_id", "task_name", "insert_id"),
    sa.Index("log_entries_by_time", "project", "job_id", "timestamp_us", "insert_id"),
    sa.Index("log_entries_by_arrival", "project", "job_id", "received_us"),
)

#: What trials reported. A source is one stream of reports of a job: a run of its master, or a summary file.
measurements = sa.Table(
    "measurements",
    metadata,
    sa.Column("id", _BigKey, primary_key=True, autoincrement=True),
    sa.Column("job_uid", sa.String(32), nullable=False),
    sa.Column("source", sa.String(512), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("tag", sa.String(256), nullable=False),
    sa.Column("step", sa.BigInteger, nullable=False),
    sa.Column("value", sa.Double),  # NULL: not a number, which SQLite cannot store otherwise
    sa.Column("reported_us", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("job_uid", "source", "sequence"),
    sa.Index("measurements_by_tag", "job_uid", "tag", "id"),
)


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
        _put_default(connection, "schema_version", SCHEMA_VERSION)
        _put_default(connection, "service_id", secrets.token_hex(6))
    _migrate(engine)
    _bring_indices_up_to_date(engine)
    return engine


def _migrate(engine: sa.Engine) -> None:
    """Bring the tables to this version, one version a transaction. :raises ValueError: they are newer."""
    found = int(read_meta(engine, "schema_version"))
    if found > int(SCHEMA_VERSION):
        raise ValueError(
            f"the database has schema version {found}, this service knows {SCHEMA_VERSION}; run a newer service"
        )
    for version in map(str, range(found + 1, int(SCHEMA_VERSION) + 1)):
        with writing(engine).begin() as connection:
            for statement in _MIGRATIONS[version]:
                connection.execute(sa.text(statement))
            connection.execute(sa.update(meta).where(meta.c.key == "schema_version").values(value=version))


def read_meta(engine: sa.Engine, key: str) -> str:
    """Return the value kept under ``key``; ``service_id`` tells one service's containers from another's."""
    with engine.connect() as connection:
        return str(connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one())


def _open_sqlite(url: sa.URL) -> sa.Engine:
    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})

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
