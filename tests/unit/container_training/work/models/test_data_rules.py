"""Checks of data: what is wrong is found, by its name and place, before anything is trained."""

from __future__ import annotations

import pytest

from container_training.work.models.data_rules import DataReport, check_table, parse_rules, parse_tables
from training_api.errors import DataInvalid, InvalidArgument

RULES = {"columns": ["x", "y", "digit"], "label": "digit", "labels": ["0", "1"], "low": 0, "high": 16}
GOOD = b"x,y,digit\n1,2,0\n3,4,1\n5,16,1\n"


def report_of(content: bytes, **changes: object) -> DataReport:
    rules = parse_rules({**RULES, **changes})
    return check_table(parse_tables([("gs://b/d.csv", content)], rules), rules, None)[0]


def failures(content: bytes, **changes: object) -> dict[str, str]:
    return {check.name: check.found for check in report_of(content, **changes).failed}


def test_good_data_pass_every_check() -> None:
    report = report_of(GOOD)

    assert report.rows == 3
    assert [check.name for check in report.checks] == ["schema", "rows", "range", "labels", "label balance"]
    assert report.failed == []


@pytest.mark.parametrize(
    ("content", "name", "found"),
    [
        (b"a,b,digit\n1,2,0\n", "schema", "gs://b/d.csv:1: the header must be x, y, digit, got a, b, digit"),
        (b"x,y,digit\n1,2\n", "schema", "gs://b/d.csv:2: a row must have 3 columns, got 2"),
        (b"x,y,digit\n1,2,0\n1,two,0\n", "schema", "gs://b/d.csv:3: column 1 must be a finite number, got 'two'"),
        (b"x,y,digit\n1,nan,0\n", "schema", "gs://b/d.csv:2: column 1 must be a finite number, got 'nan'"),
        (b"x,y,digit\n1,,0\n", "schema", "gs://b/d.csv:2: column 1 must be a finite number, got ''"),
        (b"\xff\xfe", "schema", "gs://b/d.csv: not a text in UTF-8"),
        (b"x,y,digit\n", "rows", "0 rows, min_rows 1"),
        (b"x,y,digit\n1,2,0\n3,17,1\n", "range", "y from 2 to 17"),
        (b"x,y,digit\n1,2,0\n3,4,2\n", "labels", "unknown: 2; missing: 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(content: bytes, name: str, found: str) -> None:
    assert found in failures(content)[name]


def test_too_few_rows_and_labels_too_rare_fail_together() -> None:
    assert failures(GOOD, min_rows=10, min_label_share=0.4) == {
        "rows": "3 rows, min_rows 10",
        "label balance": "label '0' has 33.33% of the rows, min_label_share 40.00%",
    }


def test_a_table_without_a_header_has_numbered_columns_and_labels_as_whole_numbers() -> None:
    rules = parse_rules({"columns": 2, "label": "1", "labels": ["3"]})

    table = parse_tables([("d", b"0.5,3.0\n1,3\n")], rules)

    assert table.features == {"0": [0.5, 1.0]}
    assert table.labels == ["3", "3"]


def test_several_files_are_one_table() -> None:
    rules = parse_rules(RULES)

    table = parse_tables([("a", GOOD), ("b", GOOD)], rules)

    assert len(table.labels) == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"colums": 2}, "colums"),
        ({"label": "z"}, "label must be one of the columns, got 'z'"),
        ({"min_rows": 0}, "min_rows"),
    ],
)
def test_rules_that_cannot_be_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises((DataInvalid, InvalidArgument), match=words):
        parse_rules({**RULES, **change})
