"""Log entries: whose line it is, and what it says, whichever payload carries it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from training_api.cloud_logging import ListLogEntriesRequest, LogEntry, Severity

SENT: dict[str, Any] = {
    "logName": "projects/demo/logs/ml.googleapis.com",
    "timestamp": "2026-11-20T12:00:00Z",
    "insertId": "1",
    "resource": {"type": "ml_job", "labels": {"job_id": "digits", "task_name": "worker-replica-1"}},
    "labels": {"ml.googleapis.com/trial_id": "3"},
    "textPayload": "epoch 1",
}


def make_entry(**changes: Any) -> LogEntry:
    return LogEntry.model_validate(SENT | changes)


def test_a_line_of_a_trial_names_its_replica_and_its_trial() -> None:
    entry = make_entry()

    assert (entry.task_name, entry.trial_id, entry.message) == ("worker-replica-1", "3", "epoch 1")
    assert entry.severity is Severity.DEFAULT


def test_a_line_without_labels_belongs_to_nobody() -> None:
    entry = make_entry(labels={}, resource={})

    assert (entry.task_name, entry.trial_id) == ("", "")


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"textPayload": ""}, ""),
        ({"textPayload": None, "jsonPayload": {"message": "m", "levelname": "INFO"}}, "m"),
        ({"textPayload": None, "jsonPayload": {"message": 5}}, "5"),
        ({"textPayload": None, "jsonPayload": {"loss": 0.5}}, ""),
        ({"textPayload": None}, ""),
    ],
)
def test_the_message_is_read_from_either_payload(payload: dict[str, Any], message: str) -> None:
    assert make_entry(**payload).message == message


def test_severities_are_numbered_as_the_logging_api_does() -> None:
    assert {severity.name: severity.number for severity in Severity} == {
        "DEFAULT": 0,
        "DEBUG": 100,
        "INFO": 200,
        "NOTICE": 300,
        "WARNING": 400,
        "ERROR": 500,
        "CRITICAL": 600,
        "ALERT": 700,
        "EMERGENCY": 800,
    }


def test_a_severity_that_the_api_does_not_know_is_refused() -> None:
    with pytest.raises(ValidationError, match="severity"):
        make_entry(severity="LOUD")


def test_a_request_asks_for_the_oldest_lines_first() -> None:
    assert ListLogEntriesRequest.model_validate({}).order_by == "timestamp asc"
