"""Log entries: stored once, found by filter, never missed by a follower."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from training_api.clients.training import job_log_filter
from training_api.dialects.ml_v1.log_wire import LogEntry, Severity
from training_api.errors import InvalidFilter
from training_service.store.database import open_database
from training_service.store.log_store import LogStore, NewLogEntry

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def make_entry(insert_id: str, seconds: float = 0, **changes: object) -> NewLogEntry:
    values: dict[str, object] = {
        "project": "project",
        "job_id": "job",
        "task_name": "master-replica-0",
        "insert_id": insert_id,
        "timestamp": NOW + timedelta(seconds=seconds),
        "severity": Severity.INFO,
        "text": f"line {insert_id}",
    }
    return NewLogEntry(**(values | changes))  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(open_database(f"sqlite:///{tmp_path / 'logs.db'}"), clock=lambda: NOW)


def texts(store: LogStore, filter_text: str = "", page_size: int = 100) -> list[str]:
    entries, _ = store.list_page(projects=["project"], filter_text=filter_text, page_size=page_size)
    return [entry.insert_id for entry in entries]


def test_same_line_is_stored_once(store: LogStore) -> None:
    store.append([make_entry("a"), make_entry("b")])
    store.append([make_entry("b"), make_entry("c")])

    assert texts(store) == ["a", "b", "c"]


def test_lines_come_by_time_then_insert_id(store: LogStore) -> None:
    store.append([make_entry("b", 1), make_entry("c", 0), make_entry("a", 1)])

    assert texts(store) == ["c", "a", "b"]


def test_pages_cover_every_line_once(store: LogStore) -> None:
    store.append([make_entry(f"{place:03d}", place // 10) for place in range(55)])
    found: list[LogEntry] = []
    token = ""
    while True:
        page, token = store.list_page(projects=["project"], filter_text="", page_size=10, page_token=token)
        found += page
        if not token:
            break

    assert [entry.insert_id for entry in found] == [f"{place:03d}" for place in range(55)]


def test_pages_can_run_backwards(store: LogStore) -> None:
    store.append([make_entry(f"{place}", place) for place in range(5)])

    first, token = store.list_page(projects=["project"], filter_text="", page_size=3, descending=True)
    second, end = store.list_page(
        projects=["project"], filter_text="", page_size=3, descending=True, page_token=token
    )

    assert [entry.insert_id for entry in first + second] == ["4", "3", "2", "1", "0"]
    assert end == ""


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ('resource.labels.job_id="job"', ["a", "b"]),
        ('resource.labels.task_name="service"', ["b"]),
        ('labels."ml.googleapis.com/task_name"="service"', ["b"]),
        ('labels."ml.googleapis.com/nonsense"="service"', None),
        ("labels.ml.googleapis.com/task_name=service", ["b"]),
        ("severity=ERROR", ["c"]),
        ('textPayload:"LINE"', ["a", "b", "c"]),
        ('timestamp>"2026-01-01T12:00:00.500Z"', ["b", "c"]),
        ('timestamp="2026-01-01T12:00:01.000000000Z" AND insertId>="b"', ["b"]),
        (
            '(resource.type="ml_job" OR resource.type="cloudml_job") AND NOT resource.labels.job_id="job"',
            ["c"],
        ),
        ('resource.type="gce_instance"', []),
    ],
)
def test_filter_selects(store: LogStore, filter_text: str, expected: list[str] | None) -> None:
    store.append(
        [
            make_entry("a"),
            make_entry("b", 1, task_name="service"),
            make_entry("c", 2, job_id="other", severity=Severity.ERROR),
        ]
    )

    if expected is None:
        with pytest.raises(InvalidFilter):
            texts(store, filter_text)
    else:
        assert texts(store, filter_text) == expected


def test_other_projects_are_not_seen(store: LogStore) -> None:
    store.append([make_entry("a", project="secret")])

    assert texts(store) == []


@pytest.mark.parametrize("token", ["nonsense", "bm9uc2Vuc2U=", "W10="])
def test_foreign_page_token_is_refused(store: LogStore, token: str) -> None:
    with pytest.raises(InvalidFilter, match="page token"):
        store.list_page(projects=["project"], filter_text="", page_size=10, page_token=token)


def test_follower_sees_a_line_that_was_stored_late(store: LogStore) -> None:
    store.append([make_entry("new", 10)])
    (seen,), _ = store.list_page(projects=["project"], filter_text=job_log_filter("job"), page_size=10)
    store.append([make_entry("older, but late", 5)])

    later = texts(store, job_log_filter("job", received_after=seen.receive_timestamp))

    assert later == ["older, but late"]


def test_arrival_times_grow_after_a_restart_although_the_clock_stands_still(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'logs.db'}")
    LogStore(database, clock=lambda: NOW).append([make_entry("a"), make_entry("b")])

    LogStore(database, clock=lambda: NOW - timedelta(hours=1)).append([make_entry("c")])

    entries, _ = LogStore(database).list_page(projects=["project"], filter_text="", page_size=10)
    arrivals = [entry.receive_timestamp for entry in sorted(entries, key=lambda e: e.insert_id)]
    assert arrivals == sorted(set(arrivals), key=arrivals.index)
    assert arrivals[0] < arrivals[1] < arrivals[2]  # type: ignore[operator]


def test_every_line_arrives_at_a_time_of_its_own(store: LogStore) -> None:
    store.append([make_entry("a"), make_entry("b"), make_entry("c")])
    store.append([make_entry("d")])

    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=10)

    arrivals = [entry.receive_timestamp for entry in entries]
    assert len(set(arrivals)) == 4
    assert arrivals == sorted(arrivals, key=lambda arrival: arrival or NOW)
