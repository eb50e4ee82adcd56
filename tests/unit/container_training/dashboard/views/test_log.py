"""Which lines are asked for, and how one is shown."""

from __future__ import annotations

from typing import Any

import pytest

from container_training.dashboard.views.log import (
    LogQuery,
    line_text,
    line_view,
    newest_arrival,
    plain_line,
)
from tests.support.fakes.job_rows import NOON, after
from training_api.cloud_logging import LogEntry, MonitoredResource, Severity
from training_api.filtering import parse_filter


def entry(**changes: Any) -> LogEntry:
    values: dict[str, Any] = {
        "log_name": "projects/p/logs/master-replica-0",
        "resource": MonitoredResource(labels={"job_id": "j", "task_name": "master-replica-0"}),
        "timestamp": NOON,
        "receive_timestamp": after(1),
        "severity": Severity.INFO,
        "insert_id": "i1",
        "text_payload": "epoch 1",
    }
    return LogEntry(**values | changes)


def test_the_filter_has_every_part_that_is_asked_for() -> None:
    query = LogQuery(
        job_id="j",
        replica="worker-replica-0",
        trial="3",
        search='say "x"\\',
        severity=Severity.WARNING,
        after="2026-11-20T12:00:00.000000Z",
    )

    assert query.filter() == (
        'resource.type="ml_job" AND resource.labels.job_id="j" AND resource.labels.task_name="worker-replica-0" '
        'AND labels."ml.googleapis.com/trial_id"="3" '
        'AND (textPayload:"say \\"x\\"\\\\" OR jsonPayload.message:"say \\"x\\"\\\\") '
        'AND severity>=WARNING AND receiveTimestamp>"2026-11-20T12:00:00.000000Z"'
    )
    assert parse_filter(query.filter()) is not None


@pytest.mark.parametrize("text", ['" OR resource.labels.job_id="other', "\\", '\\"', "a) OR (b"])
def test_no_text_leaves_its_quotes(text: str) -> None:
    tree = parse_filter(LogQuery(job_id="j", search=text).filter())

    (*_, search) = tree.operands  # type: ignore[union-attr]
    assert [each.value for each in search.operands] == [text, text]  # type: ignore[union-attr]


def test_a_json_line_shows_its_message_and_the_rest() -> None:
    line = entry(text_payload=None, json_payload={"message": "epoch 1", "loss": 0.5})

    assert line_text(line) == 'epoch 1  {"loss": 0.5}'


def test_lines_of_two_trials_are_two_lines() -> None:
    trial = entry(labels={"ml.googleapis.com/trial_id": "2"})

    assert line_view(entry())["key"] != line_view(trial)["key"]
    assert line_view(trial)["trial"] == "2"
    assert plain_line(trial) == ("2026-11-20T12:00:00.000000Z INFO     trial 2 master-replica-0: epoch 1\n")


def test_the_cursor_is_the_newest_arrival_and_stays_where_nothing_came() -> None:
    lines = [entry(receive_timestamp=after(9)), entry(receive_timestamp=after(3))]

    assert newest_arrival(lines, "x") == "2026-11-20T12:00:09.000000Z"
    assert newest_arrival([], "x") == "x"
