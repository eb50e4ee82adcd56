"""
A line of a trainer as a log entry: the rules of structured logging.

No line breaks the log.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container_engines.base import LogStream
from training_api.cloud_logging import Severity
from training_service.intake.log_lines import MAX_TEXT_CHARACTERS, Payload, read_payload, severity_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def read(line: object, stream: LogStream = LogStream.STDOUT) -> Payload:
    return read_payload(line if isinstance(line, str) else json.dumps(line), stream, NOW)


@pytest.mark.parametrize(
    ("stream", "severity"), [(LogStream.STDOUT, Severity.INFO), (LogStream.STDERR, Severity.ERROR)]
)
@pytest.mark.parametrize("line", ["loss 0.1", {"message": "loss 0.1"}])
def test_severity_is_that_of_the_stream_unless_the_line_has_one(
    line: object, stream: LogStream, severity: Severity
) -> None:
    assert read(line, stream).severity is severity


def test_json_object_becomes_severity_message_and_fields() -> None:
    found = read({"severity": "warning", "message": "slow", "step": 3, "nested": {"a": [1, None]}})

    assert found.severity is Severity.WARNING
    assert found.json_payload == {"message": "slow", "step": 3, "nested": {"a": [1, None]}}
    assert found.text is None


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        ("ERROR", Severity.ERROR),
        (" notice ", Severity.NOTICE),
        ("warn", Severity.WARNING),
        ("FATAL", Severity.CRITICAL),
        ("E", Severity.ERROR),
        (500, Severity.ERROR),
        ("450", Severity.WARNING),
        (99, Severity.DEFAULT),
        (10**6, Severity.EMERGENCY),
        (-5, Severity.DEFAULT),
        (400.9, Severity.WARNING),
        ("nan", Severity.DEFAULT),
        ("loud", Severity.DEFAULT),
        ("", Severity.DEFAULT),
        (None, Severity.DEFAULT),
        (True, Severity.DEFAULT),
        ({"level": 3}, Severity.DEFAULT),
    ],
)
def test_severity_is_a_name_a_number_or_an_abbreviation(value: object, severity: Severity) -> None:
    assert severity_of(value) is severity


@pytest.mark.parametrize(
    "fields",
    [
        {"time": "2026-01-01T12:00:01.5Z"},
        {"time": "2026-01-01T13:00:01.500000000+01:00"},
        {"timestamp": "2026-01-01T12:00:01.5Z"},
        {"timestamp": {"seconds": 1767268801, "nanos": 500_000_000}},
        {"timestampSeconds": 1767268801, "timestampNanos": 500_000_000},
        {"timestampSeconds": "1767268801", "timestampNanos": "500000000"},
    ],
)
def test_time_of_the_line_is_that_of_the_entry(fields: dict[str, Any]) -> None:
    found = read({"message": "m", **fields})

    assert found.timestamp == NOW + timedelta(seconds=1.5)
    assert found.json_payload == {"message": "m"}


@pytest.mark.parametrize(
    "fields",
    [
        {"time": "12:00:01"},
        {"time": "2026-01-01T12:00:01"},  # whose?
        {"time": 1767268801},
        {"time": "2036-01-01T12:00:01Z"},
        {"time": "1970-01-01T00:00:00Z"},
        {"timestamp": {"seconds": 10**30}},
        {"timestamp": {"nanos": 5}},
        {"timestampSeconds": True},
        {"time": "0001-01-01T00:00:00+23:59"},
    ],
)
def test_time_that_cannot_be_stays_a_field(fields: dict[str, Any]) -> None:
    found = read({"message": "m", **fields})

    assert found.timestamp == NOW
    assert found.json_payload == {"message": "m", **fields}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "{}x",
        "{'single': 'quotes'}",
        "[1, 2]",
        "3",
        '"text"',
        '{"loss": NaN}',
        '{"loss": -Infinity}',
        '{"loss": 1e999}',
        '{"half": "\\ud800"}',
        '{"n": ' + "9" * 5000 + "}",
        '{"a":' * 51 + "1" + "}" * 51,
        '{"a":' * 60_000 + "1" + "}" * 60_000,
    ],
)
def test_what_is_no_plain_json_object_is_text(line: str) -> None:
    found = read(line)

    assert found.json_payload is None
    assert (found.text or "").startswith(line[:1000])


def test_message_that_is_no_text_is_kept_as_json() -> None:
    assert read({"message": {"ä": 1}}).json_payload == {"message": '{"ä": 1}'}


def test_long_line_is_cut_and_says_so_also_if_it_is_json() -> None:
    found = read({"message": "x" * MAX_TEXT_CHARACTERS})

    assert found.json_payload is None
    assert len(found.text or "") < MAX_TEXT_CHARACTERS + 50
    assert "[cut: " in (found.text or "")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
special = st.sampled_from(["severity", "time", "timestamp", "timestampSeconds", "timestampNanos", "message"])


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.dictionaries(special | st.text(), json_values))
def test_any_line_becomes_what_the_store_and_the_api_can_hold(line: object) -> None:
    found = read(line)

    assert (found.text is None) != (found.json_payload is None)
    assert "\x00" not in (found.text or "")
    json.dumps([found.text, found.json_payload], allow_nan=False, ensure_ascii=False).encode()
    assert abs(found.timestamp - NOW) <= timedelta(days=1)
