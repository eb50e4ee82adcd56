"""
One container's lines on their way into the store: once each, and in their order.

They may be read again at any time.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from container_engines.base import LogLine, LogStream
from training_api.cloud_logging import Severity
from training_service.intake.log_batch import LogBatch
from training_service.intake.log_limiter import JobBudget, LogLimit, Loss
from training_service.intake.log_lines import MAX_TEXT_CHARACTERS
from training_service.store.database import open_database
from training_service.store.logs.log_store import LogSource, LogStore

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9
SOURCE = LogSource(project="project", job_id="job", task_name="master-replica-0")


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(open_database(f"sqlite:///{tmp_path / 'logs.db'}"), clock=lambda: NOW)


def make_line(text: str, offset_ns: int = 0, stream: LogStream = LogStream.STDOUT) -> LogLine:
    return LogLine(timestamp_ns=NOW_NS + offset_ns, stream=stream, text=text)


def test_batch_keeps_lines_of_one_instant_apart_and_in_order(store: LogStore) -> None:
    batch = LogBatch(store, SOURCE)

    for text in ("first", "second", "third"):
        batch.add(make_line(text))
    batch.flush()

    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=10)
    assert [entry.message for entry in entries] == ["first", "second", "third"]


def test_batch_read_again_from_its_newest_line_stores_nothing_twice(store: LogStore) -> None:
    lines = [make_line(f"line {place}", place // 3 * 1000) for place in range(12)]
    first = LogBatch(store, SOURCE)
    for line in lines[:8]:
        first.add(line)
    first.flush()

    second = LogBatch(store, SOURCE)
    second.rewind()
    for line in (line for line in lines if line.timestamp_ns >= second.since_ns):
        second.add(line)
    second.flush()

    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=100)
    assert [entry.message for entry in entries] == [line.text for line in lines]


def test_a_database_that_fails_at_the_first_line_loses_none(store: LogStore) -> None:
    answers = iter([sa.exc.OperationalError("SELECT", None, Exception("gone")), 0])

    def written() -> int:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def read(batch: LogBatch) -> None:
        batch.rewind()
        batch.add(make_line("first"))
        batch.flush()

    batch = LogBatch(store, SOURCE, budget=JobBudget(1000, written))
    with pytest.raises(sa.exc.OperationalError):
        read(batch)
    read(batch)

    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=10)
    assert [entry.message for entry in entries] == ["first"]


def test_reading_goes_on_a_little_before_the_newest_line(store: LogStore) -> None:
    batch = LogBatch(store, SOURCE)
    batch.add(make_line("newest"))

    batch.rewind()

    # A line that was stamped 5 ms earlier may stand behind it in the engine's file.
    assert batch.since_ns <= NOW_NS - 5_000_000


def test_times_within_a_replica_never_run_backwards(store: LogStore) -> None:
    batch = LogBatch(store, SOURCE)

    batch.add(make_line("out", 5_000))
    batch.add(make_line("err", 1_000, LogStream.STDERR))
    batch.flush()

    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=10)
    assert {entry.timestamp for entry in entries} == {NOW + timedelta(microseconds=5)}


def test_standard_error_is_an_error_and_standard_output_is_not(store: LogStore) -> None:
    batch = LogBatch(store, SOURCE)

    batch.add(make_line("out"))
    batch.add(make_line("err", 1_000, LogStream.STDERR))
    batch.flush()

    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=10)
    assert [entry.severity for entry in entries] == [Severity.INFO, Severity.ERROR]


def test_endless_line_is_cut_and_says_so(store: LogStore) -> None:
    batch = LogBatch(store, SOURCE)

    batch.add(make_line("x" * (MAX_TEXT_CHARACTERS + 5)))
    batch.flush()

    (entry,), _ = store.list_page(projects=["project"], filter_text="", page_size=10)
    assert entry.message.endswith(f"[cut: {MAX_TEXT_CHARACTERS + 5} characters]")


def messages(store: LogStore) -> list[str]:
    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=1000)
    return [entry.message for entry in entries]


def test_nothing_is_stored_before_it_is_flushed_and_then_all_at_once(store: LogStore) -> None:
    batch = LogBatch(store, SOURCE)
    batch.add(make_line("first"))
    assert messages(store) == []

    batch.flush()
    batch.flush()

    assert messages(store) == ["first"]


def test_a_full_batch_is_stored_by_its_reader(store: LogStore) -> None:
    batch = LogBatch(store, SOURCE)

    for place in range(1000):
        batch.add(make_line(f"line {place}", place))

    assert len(messages(store)) == 1000


def test_trials_that_write_at_the_same_instant_stay_apart(store: LogStore) -> None:
    for trial in ("1", "11"):
        source = LogSource(project="project", job_id="job", task_name="master-replica-0", trial_id=trial)
        batch = LogBatch(store, source)
        batch.add(make_line(f"trial {trial}"))
        batch.flush()

    assert sorted(messages(store)) == ["trial 1", "trial 11"]


def test_what_a_flood_drops_is_said_in_its_place_and_counted(store: LogStore) -> None:
    losses: list[Loss] = []
    limit = LogLimit(lines_per_second=1, bytes_per_second=10**6, tail_lines=2, job_bytes=10**9)
    batch = LogBatch(store, SOURCE, limit=limit, on_loss=losses.append)

    for place in range(100):
        batch.add(make_line(f"line {place}", place * 1000))
    batch.finish()

    said = messages(store)
    assert said[0] == "line 0"
    assert said[-2:] == ["line 98", "line 99"]
    dropped = [loss for loss in losses if not loss.is_announcement]
    kept = [message for message in said if message.startswith("line ")]
    assert sum(loss.lines for loss in dropped) == 100 - len(kept)
    assert any("were dropped here" in message for message in said)


def test_after_a_restart_a_flood_is_not_counted_again(store: LogStore) -> None:
    limit = LogLimit(lines_per_second=1, bytes_per_second=10**6, tail_lines=2, job_bytes=10**9)
    lines = [make_line(f"line {place}", place * 1000) for place in range(100)]
    first = LogBatch(store, SOURCE, limit=limit)
    for line in lines:
        first.add(line)
    first.finish()
    stored = messages(store)

    second = LogBatch(store, SOURCE, limit=limit)
    second.rewind()
    for line in (line for line in lines if line.timestamp_ns >= second.since_ns):
        second.add(line)
    second.finish()

    assert messages(store) == stored


class Disk:
    """Whether there is room, and what was lost while there was none."""

    def __init__(self) -> None:
        self.has_room = True
        self.losses: list[Loss] = []

    def batch(self, store: LogStore) -> LogBatch:
        return LogBatch(store, SOURCE, on_loss=self.losses.append, has_room=lambda: self.has_room)


def stored(store: LogStore) -> list[str]:
    entries, _ = store.list_page(projects=["project"], filter_text="", page_size=100)
    return [entry.message for entry in entries]


def test_a_full_disk_loses_lines_and_the_log_says_so_in_their_place(store: LogStore) -> None:
    disk = Disk()
    batch = disk.batch(store)
    batch.add(make_line("before"))
    batch.flush()

    disk.has_room = False
    for place in (1, 2):
        batch.add(make_line("lost", place * 1000))
        batch.flush()
    during = stored(store)
    disk.has_room = True
    batch.add(make_line("after", 3000))
    batch.flush()

    assert during == ["before"]
    assert [loss.lines for loss in disk.losses] == [1, 1]
    assert stored(store) == [
        "before",
        (
            "At least 2 lines (8 bytes) were dropped here, written from 2026-01-01T12:00:00.000001Z to "
            "2026-01-01T12:00:00.000002Z: the disk of the database was full "
            "(setting TRAINING_DISK_LOG_FLOOR_BYTES)."
        ),
        "after",
    ]


def test_the_end_of_a_log_says_what_is_missing_whatever_the_room(store: LogStore) -> None:
    disk = Disk()
    disk.has_room = False
    batch = disk.batch(store)

    batch.add(make_line("lost"))
    batch.finish()

    assert len(stored(store)) == 1
    assert stored(store)[0].startswith("At least 1 lines (4 bytes) were dropped here")


def read_by_turns(store: LogStore, source: LogSource, lines: list[LogLine]) -> None:
    """Read the log of a container with two services, one after the other, as an engine gives it."""
    for count in (len(lines) // 2, len(lines)):
        batch = LogBatch(store, source)
        batch.rewind()
        for line in lines[:count]:
            if line.timestamp_ns >= batch.since_ns:
                batch.add(line)
        batch.finish()


@pytest.mark.parametrize("skew_seconds", [-3600, 0, 3600])
def test_a_replica_that_starts_again_under_another_clock_loses_and_doubles_no_line(
    store: LogStore, skew_seconds: int
) -> None:
    written: list[str] = []
    for attempt, skew_ns in enumerate([0, skew_seconds * 10**9, -skew_seconds * 10**9]):
        # The same instants again, but for the clock of the machine.
        lines = [make_line(f"{attempt}: {place}", skew_ns + place * 10**6) for place in range(20)]
        written += [line.text for line in lines]
        read_by_turns(store, replace(SOURCE, container=f"container {attempt}"), lines)

    assert sorted(messages(store)) == sorted(written)
    for attempt in range(3):
        own = [message for message in messages(store) if message.startswith(f"{attempt}:")]
        assert own == [message for message in written if message.startswith(f"{attempt}:")]


@pytest.mark.parametrize("set_back_ns", [3600 * 10**9, 20 * 10**6])
def test_what_the_engine_gives_again_long_after_is_stored_once(store: LogStore, set_back_ns: int) -> None:
    batch = LogBatch(store, SOURCE)
    old, new = make_line("old"), make_line("new", set_back_ns)
    for line in (old, new, old, new):
        batch.add(line)
        batch.flush()

    assert messages(store) == ["old", "new"]


def test_readers_hold_no_more_than_there_is_room_for(store: LogStore) -> None:
    limit = LogLimit(lines_per_second=10, tail_lines=10_000)
    batch = LogBatch(store, SOURCE, limit=limit, room=lambda: 20_000)

    for place in range(200):
        batch.add(make_line("x" * 1000, place * 10**6))

    # 100 lines are within the limit: stored before they take more than half of the room.
    assert len(messages(store)) > 80
    batch.finish()
    said = messages(store)
    # Of the rest, which is a flood, the end that fits into the other half is kept.
    assert len([message for message in said if message.startswith("x")]) == 100 + 10
    assert any(message.startswith("At least 90 lines") for message in said)
