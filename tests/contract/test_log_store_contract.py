"""What the store of logs does on every database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.fakes.world import PROJECT
from tests.support.side_by_side import SIDE_BY_SIDE, at_once
from training_api.cloud_logging import Severity
from training_service.store.database import open_database, to_us, writing
from training_service.store.logs.log_store import LogStore, NewLogEntry
from training_service.store.tables import counters, meta

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def make_line(insert_id: str = "1", **changes: Any) -> NewLogEntry:
    values: dict[str, Any] = {
        "project": PROJECT,
        "job_id": "job",
        "task_name": "master-replica-0",
        "insert_id": insert_id,
        "timestamp": NOON,
        "severity": Severity.INFO,
        "text": "hello",
    }
    return NewLogEntry(**(values | changes))


def lines(logs: LogStore, filter_text: str = "", **changes: Any) -> list[Any]:
    values: dict[str, Any] = {"projects": [PROJECT], "filter_text": filter_text, "page_size": 100}
    return logs.list_page(**(values | changes))[0]


#: As versions 5 and older made it.
_LOG_ENTRIES = """CREATE TABLE log_entries (id BIGSERIAL PRIMARY KEY, project VARCHAR(128) NOT NULL,
job_id VARCHAR(128) NOT NULL, task_name VARCHAR(64) NOT NULL, trial_id VARCHAR(16) NOT NULL,
insert_id VARCHAR(64) NOT NULL, timestamp_us BIGINT NOT NULL, received_us BIGINT NOT NULL, severity VARCHAR(16) NOT NULL,
text_payload TEXT, json_payload JSON)"""


@pytest.mark.postgresql
def test_lines_of_an_older_version_are_taken_over_by_services_that_start_at_once(postgresql: Any) -> None:
    url, later_us = postgresql.make_database(), to_us(NOON + timedelta(hours=1))
    database = open_database(url)
    with writing(database).begin() as connection:
        connection.exec_driver_sql("ALTER TABLE log_jobs ALTER COLUMN project TYPE VARCHAR(128)")
        connection.exec_driver_sql(_LOG_ENTRIES)
        connection.exec_driver_sql(
            "INSERT INTO log_entries (project, job_id, task_name, trial_id, insert_id, timestamp_us, received_us,"
            " severity, text_payload) SELECT %s, 'job', 'master-replica-0', '', 'old-' || n, %s, %s + n, 'INFO', 'hello'"
            " FROM generate_series(1, 3) n",
            (PROJECT, to_us(NOON), later_us),
        )
        connection.execute(meta.update().where(meta.c.key == "schema_version").values(value="5"))
        connection.execute(counters.delete())
    database.dispose()

    opened = at_once(lambda _: open_database(url))

    assert all(isinstance(one, sa.Engine) for one in opened), opened
    engines = [one for one in opened if isinstance(one, sa.Engine)]
    logs = LogStore(engines[0], clock=lambda: NOON)
    logs.append([make_line("new")])
    found = sorted(lines(logs), key=lambda entry: entry.receive_timestamp)
    assert [entry.insert_id for entry in found] == ["old-1", "old-2", "old-3", "new"]
    for engine in engines:
        engine.dispose()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\x00b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("\\u0000", "\\u0000"),
        ("ß\U0001f600", "ß\U0001f600"),
    ],
)
def test_a_line_with_characters_that_cannot_be_stored_is_stored(
    database: sa.Engine, text: str, kept: str
) -> None:
    logs = LogStore(database)
    payload: Mapping[str, Any] = {"message": text, "deep": [{text: 1}]}

    logs.append([make_line("1", text=text), make_line("2", text=None, json_payload=dict(payload))])

    plain, structured = lines(logs)
    assert plain.text_payload == kept
    assert structured.json_payload == {"message": kept, "deep": [{kept: 1}]}
    assert (
        len(lines(logs, 'jsonPayload.message:"b" OR jsonPayload.message:"u" OR jsonPayload.message:"ß"')) == 1
    )


def test_lines_are_stored_once(database: sa.Engine) -> None:
    logs = LogStore(database)

    at_once(lambda _: logs.append([make_line("1"), make_line("2")]))

    assert [entry.insert_id for entry in lines(logs)] == ["1", "2"]


def test_lines_arrive_in_the_order_of_their_commits_whatever_the_clocks_say(database: sa.Engine) -> None:
    ahead = LogStore(database, clock=lambda: NOON + timedelta(hours=1))
    behind = LogStore(database, clock=lambda: NOON)

    ahead.append([make_line("1"), make_line("2")])
    behind.append([make_line("3")])

    received = [entry.receive_timestamp for entry in lines(ahead)]
    assert received == sorted(set(received))
    assert received[0] == NOON + timedelta(hours=1)


def test_lines_stored_at_once_have_arrival_times_of_their_own(database: sa.Engine) -> None:
    logs = LogStore(database, clock=lambda: NOON)

    at_once(lambda number: logs.append([make_line(f"{number}-{place}") for place in range(20)]))

    received = [entry.receive_timestamp for entry in lines(logs, page_size=1000)]
    assert len(set(received)) == len(received) == 20 * SIDE_BY_SIDE


def test_lines_arrive_after_those_that_were_removed(database: sa.Engine) -> None:
    ahead = LogStore(database, clock=lambda: NOON + timedelta(hours=1))
    behind = LogStore(database, clock=lambda: NOON)
    ahead.append([make_line("1"), make_line("2")])
    (_, seen) = lines(ahead)
    ahead.remove(PROJECT, "job")

    behind.append([make_line("3")])

    assert lines(behind)[0].receive_timestamp > seen.receive_timestamp


def test_a_log_can_be_removed_while_its_job_writes(database: sa.Engine) -> None:
    logs = LogStore(database)

    def write_or_remove(number: int) -> None:
        for turn in range(10):
            if number % 2:
                logs.remove(PROJECT, "job")
            else:
                logs.append([make_line(f"{number}-{turn}")])

    assert at_once(write_or_remove) == [None] * SIDE_BY_SIDE


def test_insert_ids_are_ordered_by_code_points(database: sa.Engine) -> None:
    logs = LogStore(database)
    insert_ids = ["1-a", "1_", "1B", "1-" + "x" * 200]

    logs.append([make_line(insert_id) for insert_id in insert_ids])

    assert [entry.insert_id for entry in lines(logs)] == sorted(insert_ids)


def test_a_log_is_read_page_by_page(database: sa.Engine) -> None:
    logs = LogStore(database)
    logs.append([make_line(f"{place:03d}") for place in range(120)])
    found, token = [], ""
    while True:
        page, token = logs.list_page(projects=[PROJECT], filter_text="", page_size=50, page_token=token)
        found += [entry.insert_id for entry in page]
        if not token:
            break

    assert found == [f"{place:03d}" for place in range(120)]
    assert logs.text_bytes(PROJECT, "job") == 120 * len("hello")


def test_values_in_lines_are_compared_by_their_own_type(database: sa.Engine) -> None:
    logs = LogStore(database)
    values = [0.25, 0.75, 2, "high", None]
    logs.append(
        [
            make_line(str(place), text=None, json_payload={"loss": {"now": value}})
            for place, value in enumerate(values)
        ]
    )

    assert [entry.insert_id for entry in lines(logs, "jsonPayload.loss.now>0.5")] == ["1", "2", "3"]
    assert [entry.insert_id for entry in lines(logs, "jsonPayload.loss.now=2.0")] == ["2"]
    assert [entry.insert_id for entry in lines(logs, 'jsonPayload.loss.now="high"')] == ["3"]


def test_a_key_outside_ascii_is_found(database: sa.Engine) -> None:
    logs = LogStore(database)
    logs.append([make_line("line", text=None, json_payload={"größe": {"ключ": 2}})])

    assert [entry.insert_id for entry in lines(logs, "jsonPayload.größe.ключ=2")] == ["line"]


def test_a_number_beyond_a_double_does_not_stop_the_query(database: sa.Engine) -> None:
    logs = LogStore(database)
    values = [10**400, -(10**400), 1.5, -0.5]
    logs.append(
        [make_line(str(place), text=None, json_payload={"x": value}) for place, value in enumerate(values)]
    )

    assert [entry.insert_id for entry in lines(logs, "jsonPayload.x>1")] == ["0", "2"]
    assert [entry.insert_id for entry in lines(logs, "jsonPayload.x<0")] == ["1", "3"]
