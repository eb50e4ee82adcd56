"""What is read from pytest's reports, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite.flaky import Repetition, table
from tests.suite.parts import ALONE, PARTS, Part, parts_for
from tests.suite.results import Outcome, TestResult, read_report, summary
from tests.suite.runner import PartRun

REPOSITORY = Path(__file__).resolve().parents[3]

REPORT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one" time="0.5"/>
<testcase classname="tests.unit.test_a" name="test_two" time="2.5"><failure message="assert 1 == 2&#10;more"/></testcase>
<testcase classname="tests.unit.test_a" name="test_three" time="0"><skipped message="needs root"/></testcase>
<testcase classname="tests.unit.test_a" name="test_four" time="1"><error message="broken fixture"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file = tmp_path / "quick.xml"
    file.write_text(REPORT)
    return file


def run_of(report: Path, *, status: int = 1, seconds: float = 12.0) -> PartRun:
    part = Part(name="quick", selection=(), budget_seconds=10)
    return PartRun(part=part, status=status, seconds=seconds, report=report)


def test_each_test_of_a_report_has_its_outcome_and_its_reason(report: Path) -> None:
    results = read_report(report)

    assert [(result.outcome, result.reason) for result in results] == [
        (Outcome.PASSED, ""),
        (Outcome.FAILED, "assert 1 == 2"),
        (Outcome.NOT_RUN, "needs root"),
        (Outcome.ERROR, "broken fixture"),
    ]
    assert results[1].name == "tests/unit/test_a.py::test_two"
    assert results[1].seconds == 2.5


def test_a_part_that_wrote_no_report_has_no_tests(tmp_path: Path) -> None:
    assert read_report(tmp_path / "missing.xml") == []


def test_the_summary_names_what_failed_what_was_not_run_and_what_was_slow(report: Path) -> None:
    text = summary([run_of(report)], slowness=1.0, seconds=90.0, peak_memory_bytes=3_000_000_000)

    assert "FAILED tests/unit/test_a.py::test_two: assert 1 == 2" in text
    assert "ERROR tests/unit/test_a.py::test_four: broken fixture" in text
    assert "NOT RUN: 1 tests: needs root" in text
    assert text.index("test_two") < text.index("test_four")
    assert "over its budget" in text
    assert "3.0 GB" in text
    assert text.splitlines()[-1] == "===== 2 failed, 1 passed, 1 skipped in 90.00s ====="


def test_a_slow_machine_has_larger_budgets(report: Path) -> None:
    text = summary([run_of(report)], slowness=2.0, seconds=1.0, peak_memory_bytes=0)

    assert "over its budget" not in text


def test_the_table_of_several_runs_says_how_often_a_test_failed() -> None:
    def result(outcome: Outcome, seconds: float) -> TestResult:
        return TestResult(name="a.py::test", outcome=outcome, seconds=seconds, reason="x | y")

    text = table(
        [
            Repetition(
                results=[result(Outcome.PASSED, 1.0)],
                status=0,
                seconds=60,
                peak_memory_bytes=5_000_000_000,
                is_loaded=False,
            ),
            Repetition(
                results=[result(Outcome.FAILED, 9.0)],
                status=1,
                seconds=120,
                peak_memory_bytes=0,
                is_loaded=True,
            ),
        ]
    )

    assert "| 1 | none | green | 1 | 0 | 1.0 |" in text
    assert "| 2 | a core and the disk | red (1) | 0 | 1 | 2.0 |" in text
    assert "| a.py::test | 1 | 2 | x \\| y |" in text
    assert "| a.py::test | 1.0 | 9.0 |" in text


@pytest.mark.parametrize(
    "only",
    [
        "docker",
        "e2e",
        "gcloud",
        "browser",
        "swarm",
        "quick",
        "integration",
        "kill",
        "hosts",
        "wheels",
        "compose",
    ],
)
def test_a_part_can_be_chosen_by_its_name(only: str) -> None:
    assert parts_for(only)


def test_all_parts_are_run_by_default_and_an_unknown_one_is_refused() -> None:
    assert parts_for("") == PARTS
    with pytest.raises(ValueError, match=r"ONLY must be one of browser, compose, docker, .*, got 'dockers'"):
        parts_for("dockers")


def test_make_test_leaves_the_extended_tests_out_and_has_a_budget_of_its_own() -> None:
    part = Part(name="some", selection=("tests",), markers="a or b", budget_seconds=9, short_budget_seconds=5)

    short = part.without_extended()

    assert (part.arguments(), part.budget_seconds) == (["tests", "-m", "a or b"], 9)
    assert (short.arguments(), short.budget_seconds) == (["tests", "-m", "(a or b) and not extended"], 5)
    plain = Part(name="plain", selection=("tests",), budget_seconds=9).without_extended()
    assert (plain.arguments(), plain.budget_seconds) == (["tests", "-m", "not extended"], 9)


def test_every_file_of_tests_is_in_one_part_or_in_two_that_differ_by_their_markers() -> None:
    missing, twice = [], []
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        name = str(path.relative_to(REPOSITORY))
        parts = [part for part in (*PARTS, *ALONE) if _selects(part, name)]
        rules = {part.markers for part in parts if part.markers}
        missing += [name] * (not parts)
        twice += [name] * (len(parts) > 1 and len(rules) < len(parts))

    assert (missing, twice) == ([], [])


def _selects(part: Part, name: str) -> bool:
    ignored = [word.removeprefix("--ignore=") for word in part.selection if word.startswith("--ignore=")]
    return name.startswith(tuple(word for word in part.selection if word.startswith("tests"))) and not (
        name.startswith(tuple(ignored))
    )
