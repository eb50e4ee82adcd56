"""INSERT with ON CONFLICT, which each database has in words of its own."""

from __future__ import annotations

from typing import cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def conflict_insert(dialect: str, table: sa.Table) -> sqlite.Insert:
    """Return an INSERT into ``table`` that can say what becomes of a row that is there."""
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    # Both have the methods that are used here; only SQLAlchemy's types differ.
    return cast("sqlite.Insert", insert(table))
