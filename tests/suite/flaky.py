"""The combined results of several runs: which tests failed, how often, and how times vary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.suite.results import Outcome, TestResult

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """One of the runs."""

    results: Sequence[TestResult]
    status: int
    seconds: float
    peak_memory_bytes: int
    is_loaded: bool


def table(repetitions: Sequence[Repetition]) -> str:
    """Return Markdown tables: runs, failed tests, tests whose times vary most. Pure."""
    lines = ["| run | load | result | passed | failed | minutes | memory |", "|---|---|---|---|---|---|---|"]
    for number, run in enumerate(repetitions, 1):
        failed = [result for result in run.results if result.outcome in (Outcome.FAILED, Outcome.ERROR)]
        passed = sum(result.outcome is Outcome.PASSED for result in run.results)
        verdict = "green" if run.status == 0 else f"red ({run.status})"
        lines.append(
            f"| {number} | {'a core and the disk' if run.is_loaded else 'none'} | {verdict} | {passed} "
            f"| {len(failed)} | {run.seconds / 60:.1f} | {run.peak_memory_bytes / 1e9:.1f} GB |"
        )
    by_test: defaultdict[str, list[TestResult]] = defaultdict(list)
    for run in repetitions:
        for result in run.results:
            by_test[result.name].append(result)
    lines += ["", "| test | failures | of runs | first reason |", "|---|---|---|---|"]
    for name, results in by_test.items():
        bad = [result for result in results if result.outcome in (Outcome.FAILED, Outcome.ERROR)]
        if bad:
            lines.append(f"| {name} | {len(bad)} | {len(repetitions)} | {_cell(bad[0].reason)} |")
    lines += ["", "| test | shortest s | longest s |", "|---|---|---|"]
    spreads = [(min(times), max(times), name) for name, times in _times(by_test).items()]
    for shortest, longest, name in sorted(spreads, key=lambda row: row[0] - row[1])[:_SHOWN]:
        lines.append(f"| {name} | {shortest:.1f} | {longest:.1f} |")
    return "\n".join(lines) + "\n"


def _times(by_test: dict[str, list[TestResult]]) -> dict[str, list[float]]:
    return {name: [result.seconds for result in results] for name, results in by_test.items()}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:200]
