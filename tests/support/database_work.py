"""What a database had to do for some calls, as counts: they are the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

#: Instructions of SQLite's virtual machine between two counts.
_EVERY = 10


@dataclass
class DatabaseWork:
    """
    The work of a SQLite database.

    :param steps: instructions of its virtual machine; each row, and each entry of an index, that is read
        takes some.
    :param statements: in their order.
    """

    steps: int = 0
    statements: list[str] = field(default_factory=list)

    def count(self) -> int:
        """Count some instructions; what SQLite's progress handler calls. 0: go on."""
        self.steps += _EVERY
        return 0


@contextmanager
def database_work(database: sa.Engine) -> Iterator[DatabaseWork]:
    """Count what ``database``, which is SQLite, does in the block."""
    work = DatabaseWork()

    def watch(connection: Any, *_: object) -> None:
        connection.set_progress_handler(work.count, _EVERY)

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        work.statements.append(statement)

    sa.event.listen(database, "checkout", watch)
    sa.event.listen(database, "before_cursor_execute", note)
    try:
        yield work
    finally:
        sa.event.remove(database, "checkout", watch)
        sa.event.remove(database, "before_cursor_execute", note)
        database.dispose()  # its connections would go on counting
