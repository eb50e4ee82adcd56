"""Writes of one thread may share a transaction; one that fails is undone alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import sqlalchemy as sa

from training_service.store.database import open_database, writing
from training_service.store.tables import meta


@pytest.fixture
def database(url: str) -> Iterator[sa.Engine]:
    engine = open_database(url)
    yield engine
    engine.dispose()


def put(database: sa.Engine, key: str) -> None:
    with writing(database).begin() as connection:
        connection.execute(sa.insert(meta).values(key=key, value=""))
        if key == "bad":
            raise KeyError(key)


def found(database: sa.Engine) -> set[str]:
    with database.connect() as connection:
        return {"first", "bad", "last"} & set(connection.execute(sa.select(meta.c.key)).scalars())


def test_a_write_that_fails_leaves_the_others(database: sa.Engine) -> None:
    for block in (writing(database).together(), nullcontext()):
        with writing(database).begin() as connection:
            connection.execute(sa.delete(meta).where(meta.c.key.in_(["first", "last"])))
        with block:
            put(database, "first")
            with pytest.raises(KeyError):
                put(database, "bad")
            put(database, "last")

        assert found(database) == {"first", "last"}


def test_on_sqlite_all_become_visible_at_once(database: sa.Engine) -> None:
    with writing(database).together():
        put(database, "first")
        seen = found(database)

    assert seen == (set() if database.name == "sqlite" else {"first"})
    assert found(database) == {"first"}
