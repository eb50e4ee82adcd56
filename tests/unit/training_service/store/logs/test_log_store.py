"""Log entries: stored once, found by filter, never missed by a follower."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from training_api.clients.log_cursor import job_log_filter
from training_api.cloud_logging import LogEntry, Severity
from training_api.errors import InvalidFilter, InvalidRequest
from training_service.store.database import open_database
from training_service.store.logs.log_store import LogSource, LogStore, NewLogEntry

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


def source_of(container: str) -> LogSource:
    return LogSource(project="project", job_id="job", task_name="master-replica-0", container=container)


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


def token_of(place: str) -> str:
    """Return the page token that would stand for ``place``, the JSON within it."""
    return base64.urlsafe_b64encode(place.encode()).decode()


@pytest.mark.parametrize(
    "token",
    [
        "nonsense",
        "bm9uc2Vuc2U=",
        "W10=",
        "é",
        "\ud800",
        token_of(f'[{2**63}, "a", 1]'),
        token_of(f'[1, "a", {-(2**70)}]'),
        token_of('[1e999, "a", 1]'),
        token_of('["1", "a", 1]'),
        token_of(r'[1, "\ud800", 1]'),
        token_of(r'[1, "\u0000", 1]'),
        token_of(f'[{"9" * 700}, "a", 1]'),
        token_of("[" * 700),
        token_of("[" * 100_000),
    ],
    ids=lambda token: ascii(token)[:30],
)
def test_foreign_page_token_is_refused(store: LogStore, token: str) -> None:
    with pytest.raises(InvalidRequest, match=r"pageToken: page token .* is not one that this service gave"):
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


def test_a_line_that_was_stored_again_is_counted_once(store: LogStore) -> None:
    store.append([make_entry("a"), make_entry("b")])
    store.append([make_entry("b"), make_entry("ccc")])

    assert store.text_bytes("project", "job") == len("line a" + "line b" + "line ccc")


def test_trials_count_for_their_tuning_job(store: LogStore) -> None:
    store.append([make_entry("a", text="12345"), make_entry("b", text="1234567", trial_id="2")])
    store.append([make_entry("a", text="of another", job_id="other")])

    assert store.text_bytes("project", "job") == 12


def test_text_is_counted_in_bytes(store: LogStore) -> None:
    store.append([make_entry("a", text="\N{GREEK SMALL LETTER ALPHA}")])

    assert store.text_bytes("project", "job") == 2


@pytest.mark.parametrize(
    "insert_id",
    [
        "01767225600123456789-000000",
        "01767225600123456789-000012",
        "01767225600123456789-1000000",
        "01767225600123456789-000000-dropped",
        "01767225600123456789-00000",
        "state-RUNNING",
    ],
)
@pytest.mark.parametrize("trial_id", ["", "3"])
def test_insert_ids_are_given_back_and_found(store: LogStore, insert_id: str, trial_id: str) -> None:
    if trial_id and insert_id[0] == "0":
        head, dropped, _ = insert_id.partition("-dropped")
        insert_id = f"{head}-trial3.{dropped}"
    store.append([make_entry(insert_id, trial_id=trial_id), make_entry("other", job_id="other")])

    assert texts(store, f'insertId="{insert_id}"') == [insert_id]
    assert texts(store, f'insertId!="{insert_id}"') == ["other"]


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ('severity:"ERR"', ["c"]),
        ("severity>=400", ["c"]),
        ('logName="projects/project/logs/service"', ["b"]),
        ('NOT logName:"service"', ["a", "c"]),
        ('resource.labels.project_id="project"', ["a", "b", "c"]),
        ('labels."ml.googleapis.com/trial_id"="7"', ["b"]),
        ('NOT labels."ml.googleapis.com/trial_id"="7"', ["a", "c"]),
        ('resource.labels.job_id="job" AND resource.labels.job_id="other"', []),
        ('resource.labels.job_id="nobody"', []),
        ('resource.labels.job_id="job" OR labels."ml.googleapis.com/job_id"="other"', ["a", "b", "c"]),
        ('receiveTimestamp>="2026-01-01T12:00:00.000001Z"', ["b", "c"]),
        ("jsonPayload.step>1", ["c"]),
    ],
)
def test_filters_over_streams_and_jobs_select(store: LogStore, filter_text: str, expected: list[str]) -> None:
    payload = {"json_payload": {"step": 2}, "text": None}
    store.append(
        [
            make_entry("a"),
            make_entry("b", 1, task_name="service", trial_id="7"),
            make_entry("c", 2, job_id="other", severity=Severity.ERROR, **payload),
        ]
    )

    assert texts(store, filter_text) == expected


def test_each_container_has_its_own_newest_line(store: LogStore) -> None:
    def entry(container: str, ns: int) -> NewLogEntry:
        return make_entry(f"{ns:020d}-000000", container=container)

    store.append([entry("first", 2000), entry("second", 1000), entry("first", 1500)])

    first, second = (source_of(container) for container in ("first", "second"))
    assert (store.newest_ns(first), store.newest_ns(second)) == (2000, 1000)
    assert store.newest_ns(source_of("third")) is None
    assert store.insert_ids_since(first, 1500) == [f"{ns:020d}-000000" for ns in (1500, 2000)]
    assert store.insert_ids_since(second, 0) == [f"{1000:020d}-000000"]


def test_the_log_of_one_job_is_removed_whole(store: LogStore) -> None:
    store.append([make_entry(f"{place:05d}") for place in range(12_000)])
    store.append([make_entry("trial", trial_id="1"), make_entry("kept", job_id="other")])

    assert store.remove("project", "job") == 12_001

    assert texts(store) == ["kept"]
    assert store.text_bytes("project", "job") == 0
    assert store.remove("project", "job") == 0


def test_a_job_whose_log_was_removed_can_write_again(store: LogStore) -> None:
    store.append([make_entry("a")])
    store.remove("project", "job")

    store.append([make_entry("b")])

    assert texts(store) == ["b"]


def test_no_more_lines_are_removed_in_one_transaction_than_is_bearable(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'logs.db'}")
    store = LogStore(database, clock=lambda: NOW)
    store.append([make_entry(f"{place:05d}") for place in range(12_000)])
    removed: list[int] = []
    sa.event.listen(
        database,
        "after_cursor_execute",
        lambda _connection, cursor, statement, *_: (
            removed.append(cursor.rowcount) if statement.startswith("DELETE FROM log_lines") else None
        ),
    )

    store.remove_before(NOW + timedelta(days=1), limit=11_000)

    assert removed == [5000, 5000, 1000]


def test_what_was_stored_before_a_moment_is_removed_oldest_first(tmp_path: Path) -> None:
    clock = iter([NOW, NOW + timedelta(days=1), NOW + timedelta(days=2)])
    store = LogStore(open_database(f"sqlite:///{tmp_path / 'logs.db'}"), clock=lambda: next(clock))
    for insert_ids in (["a", "b"], ["c"], ["d"]):
        store.append([make_entry(insert_id) for insert_id in insert_ids])
    moment = NOW + timedelta(days=1, hours=1)

    first = store.remove_before(moment, limit=1)
    left = texts(store)
    rest = store.remove_before(moment, limit=100)

    assert (first, left, rest) == (1, ["b", "c", "d"], 2)
    assert texts(store) == ["d"]


def test_arrival_times_grow_although_the_newest_lines_were_removed(store: LogStore) -> None:
    store.append([make_entry("a"), make_entry("b")])
    (_, seen), _ = store.list_page(projects=["project"], filter_text="", page_size=10)
    store.remove("project", "job")

    store.append([make_entry("c")])

    assert texts(store, job_log_filter("job", received_after=seen.receive_timestamp)) == ["c"]


def test_two_services_that_take_turns_never_use_an_arrival_time_twice(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'logs.db'}")
    first, second = LogStore(database, lambda: NOW), LogStore(database, lambda: NOW - timedelta(hours=1))

    for place, store in enumerate([first, second, first, second]):
        store.append([make_entry(f"{place}")])

    assert texts(first) == ["0", "1", "2", "3"]


def test_a_page_of_one_job_is_read_in_the_order_of_its_index(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'logs.db'}")
    store = LogStore(database, clock=lambda: NOW)
    store.append([make_entry("a")])
    plans: list[str] = []

    def explain(connection: sa.Connection, _cursor: object, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT log_lines"):
            driver = connection.connection.driver_connection
            assert driver is not None
            rows = driver.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            plans.append(" ".join(row[3] for row in rows))

    sa.event.listen(database, "before_cursor_execute", explain)
    texts(store, job_log_filter("job"))
    texts(store, job_log_filter("job", received_after=NOW))

    assert len(plans) == 2
    assert "log_lines_by_time" in plans[0]
    assert "TEMP B-TREE" not in plans[0]
    assert "log_lines_by_" in plans[1]
