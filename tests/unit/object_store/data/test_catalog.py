"""The catalog's file: who reads it, and which one it takes."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from object_store.data import catalog as module
from object_store.data.catalog import Catalog, list_buckets, next_generation, put_bucket
from object_store.data.records import Bucket
from tests.support.speed import scaled
from tests.unit.object_store.conftest import Store


def test_readers_cannot_write_and_see_one_moment(store: Store) -> None:
    with store.catalog.reading() as connection:
        before = list_buckets(connection, "", "", 10)
        thread = threading.Thread(target=store.create_bucket, args=("other", {}))
        thread.start()
        thread.join(scaled(60))

        assert list_buckets(connection, "", "", 10) == before
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM buckets")
    assert [bucket.name for bucket in store.buckets("", "", 10)] == ["demo", "other"]


def test_threads_that_come_and_go_leave_no_connection_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = store.catalog._connect
    monkeypatch.setattr(store.catalog, "_connect", lambda: opened.append(connect()) or opened[-1])

    for _ in range(20):
        thread = threading.Thread(target=store.bucket, args=("demo",))
        thread.start()
        thread.join(scaled(60))

    assert len(opened) <= 1


def test_reads_within_reads_have_connections_of_their_own(store: Store) -> None:
    with store.catalog.reading(), store.catalog.reading() as connection:
        assert list_buckets(connection, "de", "", 10)
    with pytest.raises(LookupError), store.catalog.reading():
        raise LookupError
    assert store.bucket("demo")


def test_buckets_are_listed_by_prefix_and_page(store: Store) -> None:
    for name in ("aaa", "demo-2", "zzz"):
        store.create_bucket(name, {})

    assert [bucket.name for bucket in store.buckets("demo", "", 10)] == ["demo", "demo-2"]
    assert [bucket.name for bucket in store.buckets("", "demo", 1)] == ["demo-2"]
    assert store.buckets("%", "", 10) == []


def test_generations_grow_also_when_the_clock_is_set_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.catalog.change(next_generation)
    monkeypatch.setattr(module, "now_us", lambda: 5)

    assert [store.catalog.change(next_generation) for _ in range(2)] == [first + 1, first + 2]


def test_a_newer_versions_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    catalog = Catalog(path)
    catalog.change(
        lambda connection: connection.execute("UPDATE meta SET value = 2 WHERE name = 'schema_version'")
    )
    catalog.close()

    with pytest.raises(ValueError, match="schema version 2"):
        Catalog(path)


def test_what_was_written_is_there_after_a_start(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    first = Catalog(path)
    bucket = Bucket(name="demo", fields={"labels": {"é": "👍"}}, created=1, updated=2, metageneration=3)
    first.change(lambda connection: put_bucket(connection, bucket))
    first.close()

    again = Catalog(path)
    with again.reading() as connection:
        assert list_buckets(connection, "", "", 10) == [bucket]
    again.close()
