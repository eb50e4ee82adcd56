"""Checks of data: what is wrong is found, by its name and place, before anything is trained."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from container_training.work.models.data_profile import _chi_squared, drift_from, profile_of, psi
from container_training.work.models.data_rules import DataReport, check_table, parse_rules, parse_tables
from training_api.errors import DataInvalid

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
    [({"colums": 2}, "colums"), ({"label": "z"}, "label 'z' must be one of"), ({"min_rows": 0}, "min_rows")],
)
def test_rules_that_cannot_be_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(DataInvalid, match=words):
        parse_rules({**RULES, **change})


def test_drift_of_one_column_is_found_and_named() -> None:
    rng = random.Random(1)
    before = {"x": [rng.gauss(0, 1) for _ in range(2000)], "y": [rng.random() for _ in range(2000)]}
    after = {"x": [rng.gauss(1, 1) for _ in range(2000)], "y": [rng.random() for _ in range(2000)]}
    reference = profile_of(before, ["a"] * 2000)

    found = {
        drift.column: drift.is_drifted for drift in drift_from(reference, after, ["a"] * 2000, max_psi=0.25)
    }

    assert found == {"x": True, "y": False, "label": False}


def test_new_labels_are_drift() -> None:
    reference = profile_of({"x": [1.0] * 300}, ["a"] * 300)

    (_, labels) = drift_from(reference, {"x": [1.0] * 300}, ["a"] * 150 + ["b"] * 150, max_psi=0.25)

    assert labels.is_drifted


def test_few_rows_of_the_same_kind_are_no_drift() -> None:
    # The index of 40 rows is above 0.25 in most of these; chance alone explains it.
    rng = random.Random(2)
    columns = [str(number) for number in range(64)]
    alarms, above = 0, 0
    for _ in range(30):
        before = {name: [rng.random() for _ in range(40)] for name in columns}
        after = {name: [rng.random() for _ in range(40)] for name in columns}
        found = drift_from(profile_of(before, ["a"] * 40), after, ["a"] * 40, max_psi=0.25)
        alarms += any(drift.is_drifted for drift in found)
        above += any(drift.psi > 0.25 for drift in found)

    assert above == 30
    assert alarms == 0


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=12),
    st.lists(st.integers(0, 1000), min_size=12, max_size=12),
)
def test_the_index_is_zero_for_the_same_symmetric_and_never_negative(
    one: list[int], other: list[int]
) -> None:
    other = other[: len(one)]

    assert psi(one, one) == 0
    assert psi(one, other) >= 0
    assert psi(one, other) == pytest.approx(psi(other, one))


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_the_bins_of_a_profile_hold_every_row(values: list[float]) -> None:
    profile = profile_of({"x": values}, ["a"] * len(values)).features["x"]

    assert sum(profile.counts) == len(values)
    assert profile.edges == sorted(set(profile.edges))
    assert len(profile.counts) == len(profile.edges) + 1


@pytest.mark.parametrize("degrees", [1, 3, 9, 20])
@pytest.mark.parametrize("chance", [0.999, 1 - 0.001 / 65])
def test_the_quantile_is_close_to_that_of_scipy(degrees: int, chance: float) -> None:
    assert _chi_squared(degrees, chance) == pytest.approx(
        chi2.ppf(chance, degrees), rel=0.11 if degrees == 1 else 0.05
    )
