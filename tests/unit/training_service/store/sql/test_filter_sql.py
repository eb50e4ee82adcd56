"""
What a filter means, in SQL and in plain Python.

A comparison with an absent field is false, ``!=`` too, and ``NOT`` of it is true. Source:
cloud.google.com/logging/docs/view/logging-query-language, "Missing fields".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from training_api.cloud_logging import Severity
from training_api.dialects.ml_v1.dialect import ML_V1
from training_api.errors import InvalidFilter
from training_api.filtering import And, Comparison, Filter, Not, Or, parse_filter
from training_service.store.database import open_database, writing
from training_service.store.jobs.job_list import plain_condition
from training_service.store.logs.log_filters import log_condition
from training_service.store.logs.log_store import LogStore, NewLogEntry
from training_service.store.sql.filter_sql import MAX_PART
from training_service.store.tables import jobs, log_lines

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TRIAL = 'labels."ml.googleapis.com/trial_id"'
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Line:
    """What of an entry filters ask for here."""

    text: str | None = None
    payload: dict[str, Any] | None = None
    trial: str = ""
    severity: Severity = Severity.INFO


def holds(tree: Filter, line: Line) -> bool:
    """Tell whether ``tree`` holds for ``line``: the meaning of filters, without SQL."""
    match tree:
        case And(operands):
            return all(holds(operand, line) for operand in operands)
        case Or(operands):
            return any(holds(operand, line) for operand in operands)
        case Not(operand):
            return not holds(operand, line)
        case Comparison("severity", op, value):
            return _COMPARE[op](line.severity.number, Severity[value].number)
        case Comparison("textPayload", ":", "*"):
            return line.text is not None
        case Comparison("textPayload", op, value):
            return text_holds(line.text or "", op, value)  # a field of LogEntry: compared by its default
        case Comparison("labels.ml.googleapis.com/trial_id", op, value):
            return bool(line.trial) and text_holds(line.trial, op, value)
        case Comparison(path, op, value):
            found: Any = line.payload
            for key in path.split(".")[1:]:
                found = found.get(key) if isinstance(found, dict) else None
            return found is not None and json_holds(found, op, value)


def json_holds(found: Any, op: str, value: str) -> bool:
    if isinstance(found, bool):
        return text_holds("true" if found else "false", op, value)
    if isinstance(found, str):
        return text_holds(found, op, value)
    if (op, value) == (":", "*"):
        return True
    try:
        return _COMPARE["=" if op == ":" else op](float(found), float(value))
    except ValueError:
        return op == "!="


def text_holds(found: str, op: str, value: str) -> bool:
    if op == ":":
        return value == "*" or value.lower() in found.lower()
    return _COMPARE[op](found, value)


_words = st.sampled_from(["", "a", "A", "ab", "b", "5", "05", "%", "_", "true"])
_values = _words | st.sampled_from(["*", "-5", "5.0", "1e3", "1000"])
_json = st.none() | st.booleans() | st.integers(-5, 5) | st.just(1000) | st.floats(-5, 5) | _words
_payloads = st.dictionaries(st.sampled_from("xy"), _json | st.dictionaries(st.just("z"), _json), max_size=2)
_lines = st.builds(
    Line,
    text=st.none() | _words,
    payload=st.none() | _payloads,
    trial=st.sampled_from(["", "1", "12"]),
    severity=st.sampled_from(Severity),
)
_paths = st.sampled_from(
    [
        "textPayload",
        "labels.ml.googleapis.com/trial_id",
        "jsonPayload.x.z",
        "jsonPayload.y.z",
        "jsonPayload.w",
    ]
)
_comparisons = st.builds(Comparison, _paths, st.sampled_from([*_COMPARE, ":"]), _values) | st.builds(
    Comparison, st.just("severity"), st.sampled_from([*_COMPARE]), st.sampled_from([*Severity.__members__])
)
_trees: st.SearchStrategy[Filter] = st.recursive(
    _comparisons,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def database() -> Iterator[sa.Engine]:
    engine = open_database("sqlite://")
    yield engine
    engine.dispose()


def found(database: sa.Engine, lines: Sequence[Line], tree: Filter) -> list[int]:
    """Return the places of those of ``lines`` for which ``tree`` holds in SQL."""
    with writing(database).begin() as connection:
        connection.execute(sa.delete(log_lines))
    LogStore(database, clock=lambda: NOW).append(
        [
            NewLogEntry(
                project="p",
                job_id="j",
                task_name="master-replica-0",
                insert_id=f"{place:03d}",
                timestamp=NOW,
                severity=line.severity,
                text=line.text,
                json_payload=line.payload,
                trial_id=line.trial,
            )
            for place, line in enumerate(lines)
        ]
    )
    query = sa.select(log_lines.c.suffix).where(log_condition(tree))
    with database.connect() as connection:
        return sorted(int(key) for key in connection.execute(query).scalars())


@settings(max_examples=80, deadline=None)
@given(lines=st.lists(_lines, min_size=1, max_size=8), tree=_trees)
def test_sql_and_plain_python_find_the_same_entries(
    database: sa.Engine, lines: list[Line], tree: Filter
) -> None:
    expected = [place for place, line in enumerate(lines) if holds(tree, line)]

    assert found(database, lines, tree) == expected


TEXT, BEAT, JSON = Line(text="step 1"), Line(text="Heartbeat"), Line(payload={"x": 5, "s": "5", "b": True})
TRIAL_LINE = Line(text="of a trial", trial="3")


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ('NOT textPayload:"heartbeat"', [TEXT, JSON, TRIAL_LINE]),
        ('-textPayload:"heartbeat"', [TEXT, JSON, TRIAL_LINE]),
        ('textPayload!="Heartbeat"', [TEXT, JSON, TRIAL_LINE]),
        ("textPayload:*", [TEXT, BEAT, TRIAL_LINE]),
        ("NOT textPayload:*", [JSON]),
        ("jsonPayload.x!=6", [JSON]),
        ("jsonPayload.x!=5", []),
        ("NOT jsonPayload.x=5", [TEXT, BEAT, TRIAL_LINE]),
        ("NOT jsonPayload.x=6", [TEXT, BEAT, JSON, TRIAL_LINE]),
        ("NOT NOT jsonPayload.x=5", [JSON]),
        ("NOT (jsonPayload.x=5 AND jsonPayload.y=1)", [TEXT, BEAT, JSON, TRIAL_LINE]),
        ("jsonPayload.x=5.0 AND jsonPayload.s=5 AND jsonPayload.b=true", [JSON]),
        ("jsonPayload.s=5.0", []),
        ("jsonPayload.x>abc", []),
        ("jsonPayload.x<1e999", [JSON]),
        (f"{TRIAL}!=4", [TRIAL_LINE]),
        (f"NOT {TRIAL}=4", [TEXT, BEAT, JSON, TRIAL_LINE]),
        (f"NOT {TRIAL}:*", [TEXT, BEAT, JSON]),
    ],
)
def test_an_absent_field_fits_no_comparison_and_every_negation(
    database: sa.Engine, filter_text: str, expected: list[Line]
) -> None:
    lines = [TEXT, BEAT, JSON, TRIAL_LINE]
    tree = parse_filter(filter_text)
    assert tree is not None

    assert [lines[place] for place in found(database, lines, tree)] == expected


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ("labels.team=a", ["one"]),
        ("labels.team!=a", ["two"]),
        ("NOT labels.team=a", ["none", "two"]),
        ("NOT labels.team:*", ["none"]),
        ('NOT endTime>"2026-01-01T00:00:00Z"', ["none", "two"]),
        ('endTime!="2026-01-01T00:00:00Z"', ["one"]),
        ('NOT (labels.team=a OR endTime>"2026-01-01T00:00:00Z")', ["none", "two"]),
    ],
)
def test_jobs_without_a_label_or_a_time_follow_the_same_rule(filter_text: str, expected: list[str]) -> None:
    engine = open_database("sqlite://")
    common = {"project": "p", "request": {}, "state": "RUNNING", "priority": 0, "created_us": 1}
    rows = [
        {"job_id": "none", "labels": {}, "ended_us": None},
        {"job_id": "one", "labels": {"team": "a"}, "ended_us": 2 * 10**15},
        {"job_id": "two", "labels": {"team": "b"}, "ended_us": None},
    ]
    with writing(engine).begin() as connection:
        connection.execute(sa.insert(jobs), [common | row | {"uid": row["job_id"]} for row in rows])
    tree = parse_filter(filter_text)
    assert tree is not None

    condition = plain_condition(tree, ML_V1.filter_fields)

    with engine.connect() as connection:
        found = connection.execute(sa.select(jobs.c.job_id).where(condition)).scalars().all()
    engine.dispose()
    assert sorted(found) == expected


@pytest.mark.parametrize("text", ["É", "50%", "a_b", "c/d", r"back\slash"])
def test_a_line_is_found_by_its_own_text(database: sa.Engine, text: str) -> None:
    assert found(database, [Line(text=f"<{text}>"), TEXT], Comparison("textPayload", ":", text)) == [0]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (Comparison("severity", ">=", "9" * 5000), "with a number of at most 9 digits, got '999"),
        (Comparison("severity", ">=", "٣"), "must be compared with one of DEFAULT"),
        (Comparison("textPayload", ":", "€" * (MAX_PART + 1)), "must be at most 1000 characters, got 1001"),
        (Comparison('jsonPayload.a"b', "=", "1"), "must not have double quotes or backslashes, got 'a\"b'"),
        (Comparison("jsonPayload.a\\", "=", "1"), "must not have double quotes or backslashes"),
        (Comparison("x" * 5000, "=", "1"), r"a filter cannot ask for 'x+\.\.\.'"),
    ],
)
def test_what_a_database_cannot_compare_is_refused_with_the_rule(tree: Filter, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message) as caught:
        log_condition(tree)

    assert len(str(caught.value)) < 1000


def test_the_longest_text_that_may_be_searched_for_fits_into_a_pattern(database: sa.Engine) -> None:
    longest = Comparison("textPayload", ":", "€%" * (MAX_PART // 2))

    assert found(database, [TEXT], longest) == []


@pytest.mark.parametrize("column", ["jsonPayload.a.b>5", "NOT jsonPayload.a:x", "jsonPayload.a=true"])
def test_postgresql_casts_numbers_alone(column: str) -> None:
    tree = parse_filter(column)
    assert tree is not None

    written = str(
        log_condition(tree).compile(dialect=sa.dialects.postgresql.dialect())  # type: ignore[no-untyped-call]
    )

    assert "CASE WHEN (json_typeof((log_lines.json_payload #> " in written
    assert "json_type(" not in written
