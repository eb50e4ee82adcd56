"""
Following a job's log: no line is lost, and none is shown twice.

Whatever is stored while the pages are read.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.clients.log_cursor import LogCursor, LogQuestion, job_log_filter, log_line
from training_api.cloud_logging import ListLogEntriesResponse, LogEntry, Severity
from training_api.filtering import And, Comparison, parse_filter

EPOCH = datetime(2026, 11, 20, 9, tzinfo=UTC)


def entry(number: int, received: float | None = None, **changes: object) -> LogEntry:
    """Return the line ``number``, which the service stored ``received`` seconds after the epoch."""
    moment = EPOCH + timedelta(seconds=float(number if received is None else received))
    values = {
        "logName": "projects/p/logs/ml.googleapis.com%2Fjob",
        "insertId": str(number),
        "timestamp": EPOCH.isoformat(),
        "receiveTimestamp": moment.isoformat(),
        "resource": {"type": "ml_job", "labels": {"job_id": "job", "task_name": "master-replica-0"}},
        "textPayload": f"line {number}",
    }
    return LogEntry.model_validate({**values, **changes})


class FakeLog:
    """
    Answers requests page by page, two lines a page.

    ``between`` happens before each later page.
    """

    def __init__(self, *entries: LogEntry, between: Callable[[], None] = lambda: None) -> None:
        self.entries = list(entries)
        self.between = between
        self.filters: list[str] = []

    def answer(self, question: LogQuestion) -> ListLogEntriesResponse:
        self.filters.append(question.filter)
        if question.page_token:
            self.between()
        after = question.filter.partition('receiveTimestamp>"')[2].rstrip('"')
        wanted = [
            each for each in self.entries if not after or received(each) > datetime.fromisoformat(after)
        ]
        wanted.sort(key=received)
        start = int(question.page_token or 0)
        token = str(start + 2) if len(wanted) > start + 2 else None
        return ListLogEntriesResponse(entries=wanted[start : start + 2], next_page_token=token)


def received(each: LogEntry) -> datetime:
    assert each.receive_timestamp is not None
    return each.receive_timestamp


def read(cursor: LogCursor, log: FakeLog) -> list[str]:
    """Return the lines of one pass."""
    question: LogQuestion | None = cursor.begin("job")
    shown: list[str] = []
    while question is not None:
        entries, question = cursor.take(question, log.answer(question))
        shown += [each.message for each in entries]
    return shown


def test_all_pages_of_a_pass_are_read() -> None:
    assert read(LogCursor(), FakeLog(*map(entry, range(5)))) == [f"line {number}" for number in range(5)]


def test_the_next_pass_asks_for_what_came_later() -> None:
    cursor, log = LogCursor(), FakeLog(entry(1))
    read(cursor, log)
    log.entries.append(entry(2))

    assert read(cursor, log) == ["line 2"]
    assert log.filters == [job_log_filter("job"), job_log_filter("job", received(entry(1)))]


def test_a_pass_without_lines_stays_where_it_was() -> None:
    cursor, log = LogCursor(), FakeLog(entry(1))

    assert [read(cursor, log), read(cursor, log), read(cursor, log)] == [["line 1"], [], []]


def test_a_line_that_is_stored_before_the_place_that_was_reached_is_shown() -> None:
    log = FakeLog(*map(entry, range(1, 5)))
    late = entry(9, received=2.5)
    log.between = lambda: None if late in log.entries else log.entries.append(late)
    cursor = LogCursor()

    shown = read(cursor, log) + read(cursor, log)

    assert sorted(shown) == ["line 1", "line 2", "line 3", "line 4", "line 9"]


def test_a_pass_that_broke_off_repeats_nothing() -> None:
    cursor, log = LogCursor(), FakeLog(*map(entry, range(4)))
    question = cursor.begin("job")
    first, _ = cursor.take(question, log.answer(question))

    assert [each.message for each in first] + read(cursor, log) == [f"line {number}" for number in range(4)]


def test_a_later_process_goes_on_from_the_written_place() -> None:
    cursor, log = LogCursor(), FakeLog(entry(1), entry(2))
    read(cursor, log)
    log.entries.append(entry(3))

    assert read(LogCursor.from_json(cursor.to_json()), log) == ["line 3"]


def test_the_place_at_the_beginning_is_none() -> None:
    assert LogCursor().to_json() is None
    assert LogCursor.from_json(None).received_after is None


def test_the_question_names_replica_and_severity() -> None:
    question = LogCursor().begin("job", "service", "WARNING")

    assert question.filter == f"{job_log_filter('job', task_name='service')} AND severity>=WARNING"


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_while_lines_are_stored_side_by_side(seed: int) -> None:
    chance = random.Random(seed)
    log = FakeLog()
    now = 0.0

    def store() -> None:
        nonlocal now
        for _ in range(chance.randrange(2)):
            now += chance.choice((0.001, 0.5))  # it grows with every stored line
            log.entries.append(entry(len(log.entries), received=now))

    log.between = store
    cursor, shown = LogCursor(), list[str]()
    for _ in range(15):
        now += 0.001  # a pass begins after all that the one before has seen
        store()
        shown += read(cursor, log)
    log.between = lambda: None
    now += 1
    log.entries.append(entry(len(log.entries), received=now))
    shown += read(cursor, log)

    assert sorted(shown) == sorted(each.message for each in log.entries)


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({}, logging.INFO, "master-replica-0: line 1"),
        ({"severity": Severity.ERROR}, logging.ERROR, "master-replica-0: line 1"),
        ({"severity": Severity.EMERGENCY}, logging.CRITICAL, "master-replica-0: line 1"),
    ],
)
def test_a_line_has_its_replica_and_its_level(changes: dict[str, object], level: int, text: str) -> None:
    assert log_line(entry(1, **changes)) == (level, text)


# --- the filter of a job's log

_names = st.text(st.sampled_from('ab"\\ ()\n') | st.characters(codec="utf-8"), max_size=12)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("j",), 'resource.type="ml_job" AND resource.labels.job_id="j"'),
        (
            ("j", None, "master-replica-0"),
            (
                'resource.type="ml_job" AND resource.labels.job_id="j"'
                ' AND resource.labels.task_name="master-replica-0"'
            ),
        ),
        (
            ("j", datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)),
            (
                'resource.type="ml_job" AND resource.labels.job_id="j"'
                ' AND receiveTimestamp>"2026-01-31T12:00:00.000005Z"'
            ),
        ),
    ],
)
def test_the_filter_asks_for_the_lines_of_one_job(args: tuple[Any, ...], expected: str) -> None:
    assert job_log_filter(*args) == expected


@settings(deadline=None)
@given(job_id=_names, task_name=_names.filter(bool))
def test_the_filter_means_the_job_and_the_task_whatever_they_are_called(job_id: str, task_name: str) -> None:
    assert parse_filter(job_log_filter(job_id, task_name=task_name)) == And(
        (
            Comparison("resource.type", "=", "ml_job"),
            Comparison("resource.labels.job_id", "=", job_id),
            Comparison("resource.labels.task_name", "=", task_name),
        )
    )
