"""The content of pytest's reports: each test with outcome and time, and tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree

from tests.suite.runner import PartRun


class Outcome(StrEnum):
    """How a test ended; the values are those of pytest's last line."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """
    One test.

    :param seconds: of its call, set-up and tear-down; fixtures of a session count with the test that asked
        first.
    :param reason: why it was not run, or the first line of its failure.
    """

    __test__ = False  # pytest: a value, not a class of tests

    name: str
    outcome: Outcome
    seconds: float
    reason: str = ""


def read_report(report: Path) -> list[TestResult]:
    """
    Return the tests of a JUnit report; empty without a report.

    There is none if pytest was killed.

    An error of tear-down is an entry of its own in pytest's reports, beside that of the test; both are
    returned.
    """
    if not report.is_file():
        return []
    return [_result(case) for case in ElementTree.parse(report).getroot().iter("testcase")]  # noqa: S314  # pytest's own


def _result(case: ElementTree.Element) -> TestResult:
    outcome, reason = Outcome.PASSED, ""
    for tag, kind in (
        ("skipped", Outcome.NOT_RUN),
        ("failure", Outcome.FAILED),
        ("error", Outcome.ERROR),
    ):
        if (found := case.find(tag)) is not None:
            outcome, reason = kind, (found.get("message") or "").partition("\n")[0]
    name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '')}"
    return TestResult(name=name, outcome=outcome, seconds=float(case.get("time") or 0), reason=reason)


def summary(runs: Sequence[PartRun], *, slowness: float, seconds: float, peak_memory_bytes: int) -> str:
    """
    Return what a person reads at the end of a run. Pure but for reading the reports.

    :param slowness: by which budgets are multiplied.
    """
    results = {run.part.name: read_report(run.report) for run in runs}
    every = [result for found in results.values() for result in found]
    lines = ["", "slowest 20:"]
    slowest = sorted(every, key=lambda result: result.seconds, reverse=True)[:20]
    lines += [f"  {result.seconds:7.1f} s  {result.name}" for result in slowest]
    lines += ["", f"{'part':8} {'passed':>7} {'failed':>7} {'not run':>8} {'seconds':>8} {'budget':>7}"]
    for run in runs:
        counts = Counter(result.outcome for result in results[run.part.name])
        budget = run.part.budget_seconds * slowness
        note = "  over its budget" if run.seconds > budget else ""
        note += "" if run.status == 0 else f"  exit status {run.status}"
        lines.append(
            f"{run.part.name:8} {counts[Outcome.PASSED]:7} {_failed(counts):7} {counts[Outcome.NOT_RUN]:8} "
            f"{run.seconds:8.0f} {budget:7.0f}{note}"
        )
    lines += ["", *_reasons(every)]
    lines.append(
        f"took {seconds / 60:.1f} min, at most {peak_memory_bytes / 1e9:.1f} GB of memory more than before; "
        f"this machine took {slowness:.2f} times what an idle one with two cores takes"
    )
    counts = Counter(result.outcome for result in every)
    # The last line in pytest's own words, for those who read that.
    lines.append(
        f"===== {_failed(counts)} failed, {counts[Outcome.PASSED]} passed, {counts[Outcome.NOT_RUN]} skipped "
        f"in {seconds:.2f}s ====="
    )
    return "\n".join(lines)


def _failed(counts: Counter[Outcome]) -> int:
    return counts[Outcome.FAILED] + counts[Outcome.ERROR]


def _reasons(results: Iterable[TestResult]) -> Iterator[str]:
    """Yield a line for each failed test, and one for each reason for which tests were not run."""
    for result in results:
        if result.outcome in (Outcome.FAILED, Outcome.ERROR):
            yield f"{result.outcome.value.upper()} {result.name}: {result.reason}"
    not_run = Counter(result.reason for result in results if result.outcome is Outcome.NOT_RUN)
    for reason, count in not_run.most_common():
        yield f"NOT RUN: {count} tests: {reason}"
