"""
What brings the tables of the version before to a version. New tables are made anyway, with all their columns.

A migration names the columns that it needs by itself: it must do the same when today's tables have changed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlalchemy as sa


def _to_2(connection: sa.Connection) -> None:
    """Several images a job, restarts, and an outcome that is written before the job has ended."""
    _add_column(connection, "jobs", "images", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "jobs", "attempts", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "jobs", "outcome", "VARCHAR(16) NOT NULL DEFAULT ''")
    connection.exec_driver_sql("ALTER TABLE jobs DROP COLUMN image_id")


def _to_3(connection: sa.Connection) -> None:
    """Trials."""
    _add_column(connection, "jobs", "study_uid", "VARCHAR(32) NOT NULL DEFAULT ''")
    _add_column(connection, "jobs", "trial", "JSON NOT NULL DEFAULT '{}'")


def _to_4(connection: sa.Connection) -> None:
    """Reasons with a cause, and the digest of what was pulled. Messages from before have no cause: it is unknown."""
    _add_column(connection, "jobs", "reason", "JSON NOT NULL DEFAULT '{}'")
    _add_column(connection, "spans", "pinned", "TEXT NOT NULL DEFAULT ''")


#: Version -> what brings the tables of the version before to it. One transaction each.
MIGRATIONS: Mapping[int, Callable[[sa.Connection], None]] = {2: _to_2, 3: _to_3, 4: _to_4}
#: Grows when the tables change; a service refuses a database that is newer than itself.
SCHEMA_VERSION = max(MIGRATIONS)


def _add_column(connection: sa.Connection, table: str, name: str, definition: str) -> None:
    """Add a column, unless the whole table is new and has it."""
    if name not in {column["name"] for column in sa.inspect(connection).get_columns(table)}:
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {name} {definition}")
