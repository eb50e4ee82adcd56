"""
Compare our search with Optuna's samplers and a random search, from the same 10 seeds.

``make bench-search``, or ``python -m benchmarks search [--quick | --seeds N]``. Not part of ``make bench``:
it takes half an hour on two idle cores, and Optuna's Gaussian process needs PyTorch. Studies are kept in
``.local/search-benchmark.jsonl`` as they end, and not run again while the code is the same.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.report import Figure, write_report
from benchmarks.search.methods import METHODS, missing_packages, version
from benchmarks.search.problems import PROBLEMS, Problem
from local_stack.settings import REPOSITORY_ROOT

KEPT = REPOSITORY_ROOT / ".local" / "search-benchmark.jsonl"
SEEDS = 10
TRIALS = 100
PREFIXES = (50, 100)
PARALLEL = (1, 8)
PROCESSES = 2
#: Regrets below this part of what the function spans count as none: nobody tunes to the sixth digit.
FLOOR = 1e-3
MORE_THAN_GP = 1.2
MAX_HARTMANN = 0.10
COMPLETED, MAX_SUGGESTION_SECONDS = 200, 0.5
#: Fits are measured in one thread, as each of the two processes runs them.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Run:
    """One study: a method on a problem."""

    problem: str
    method: str
    parallel: int
    seed: int
    trials: int

    @property
    def key(self) -> str:
        """What the kept result is found by."""
        return json.dumps(
            [self.problem, self.method, self.parallel, self.seed, self.trials, version(self.method)]
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Measure, print, and write the results; return 0 if every figure is within its limit.

    A quick run writes no results.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks search", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="2 seeds, 50 trials, the four functions only: minutes"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"fewer than {SEEDS} for a first look")
    asked = parser.parse_args(arguments)
    if asked.quick:
        figures = measure(PROBLEMS[:4], seeds=2, trials=50)
    else:
        figures = measure(PROBLEMS, seeds=asked.seeds, trials=TRIALS)
        print(f"written to {write_report({'search': figures}, prefix='search-')}")
    return 0 if all(figure.holds for figure in figures) else 1


def measure(problems: Sequence[Problem], seeds: int, trials: int) -> list[Figure]:
    """Run what is not kept yet, print the table, and return a figure for each row and method."""
    os.environ.update(ONE_THREAD)
    methods = [method for method in METHODS if not missing_packages(method)]
    for method in METHODS.keys() - set(methods):
        print(f"{method} is left out: it needs {' and '.join(missing_packages(method))} (make bench-search)")
    runs = [
        Run(problem.name, method, parallel, seed, trials)
        for seed in range(seeds)
        for problem in problems
        for parallel in PARALLEL
        for method in methods
    ]
    results = _results(runs)
    figures = []
    table = _table(methods)
    for problem in problems:
        least = problem.optimum
        if least is None:
            least = min(min(values) for run, values in results.items() if run.problem == problem.name)
        for parallel in PARALLEL:
            for prefix in (each for each in PREFIXES if each <= trials):
                regrets = {
                    method: [
                        min(results[Run(problem.name, method, parallel, seed, trials)][:prefix]) - least
                        for seed in range(seeds)
                    ]
                    for method in methods
                }
                row = f"{problem.name}, {parallel} at a time, {prefix} trials"
                found = _row_figures(row, regrets)
                figures += found
                table.add_row(
                    row, *(_cell(regrets[method]) for method in methods), "" if found[0].holds else "TOO MUCH"
                )
    Console(width=None if Console().is_terminal else 180).print(table)
    return figures + _suggestion_seconds(methods)


def _row_figures(row: str, regrets: dict[str, list[float]]) -> list[Figure]:
    limits = [MAX_HARTMANN] if row == "Hartmann-6, 8 at a time, 50 trials" else []
    if "Optuna TPE" in regrets:
        limits.append(max(statistics.median(regrets["Optuna TPE"]), FLOOR))
    if "Optuna GP" in regrets:
        limits.append(max(MORE_THAN_GP * statistics.median(regrets["Optuna GP"]), FLOOR))
    return [
        Figure(
            name=f"{row}: {method}",
            value=_significant(statistics.median(each)),
            unit="regret",
            limit=_significant(min(limits)) if method == "ours" and limits else None,
            samples=tuple(_significant(regret) for regret in each),
        )
        for method, each in regrets.items()
    ]


def _suggestion_seconds(methods: Sequence[str]) -> list[Figure]:
    """Return how long one suggestion takes at 200 completed trials of Hartmann-6, in one thread."""
    context = multiprocessing.get_context("spawn")
    figures = []
    for method in (each for each in methods if each != "random"):
        with ProcessPoolExecutor(1, mp_context=context) as processes:
            seconds = processes.submit(time_suggestions, method).result()
        figures.append(
            Figure(
                name=f"a suggestion at {COMPLETED} completed trials: {method}",
                value=_significant(statistics.median(seconds)),
                unit="s",
                limit=MAX_SUGGESTION_SECONDS if method == "ours" else None,
                samples=tuple(_significant(each) for each in seconds),
            )
        )
    return figures


def time_suggestions(method: str) -> list[float]:
    """
    Return the processor seconds between the reports of trials 200 to 210.

    They include the 20 microseconds of Hartmann-6 itself.

    Processor seconds of one thread are what a core takes, whoever else uses the machine.
    """
    problem = next(each for each in PROBLEMS if each.name == "Hartmann-6")
    moments: list[float] = []

    def evaluate(assignment: Any) -> float:
        moments.append(time.process_time())
        return problem.evaluate(assignment)

    timed = Problem(
        name=problem.name, evaluate=evaluate, parameters=problem.parameters, optimum=problem.optimum
    )
    METHODS[method](timed, 1, 0, COMPLETED + 11)
    return [
        after - before for before, after in zip(moments[COMPLETED:], moments[COMPLETED + 1 :], strict=False)
    ]


def _results(runs: Sequence[Run]) -> dict[Run, list[float]]:
    kept = dict(_kept())
    missing = [run for run in runs if run.key not in kept]
    print(f"{len(runs)} studies, {len(runs) - len(missing)} of them kept from before ({KEPT})", flush=True)
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=context) as processes, KEPT.open("a") as file:
        futures = {processes.submit(run_study, run): run for run in missing}
        for done, future in enumerate(as_completed(futures), 1):
            kept[futures[future].key] = future.result()
            file.write(json.dumps({"key": futures[future].key, "values": future.result()}) + "\n")
            file.flush()
            if done % 20 == 0:
                print(f"{done} of {len(missing)} studies", flush=True)
    return {run: kept[run.key] for run in runs}


def run_study(run: Run) -> list[float]:
    """Return what the trials of one study reported."""
    problem = next(each for each in PROBLEMS if each.name == run.problem)
    return METHODS[run.method](problem, run.parallel, run.seed, run.trials)


def _kept() -> Iterator[tuple[str, list[float]]]:
    if KEPT.exists():
        for line in KEPT.read_text().splitlines():
            entry = json.loads(line)
            yield entry["key"], entry["values"]


def _table(methods: Sequence[str]) -> Table:
    table = Table(
        box=None, pad_edge=False, title=f"regret, median and quartiles; below {FLOOR:g} counts as equal"
    )
    for column in ("problem", *methods, ""):
        table.add_column(column)
    return table


def _cell(regrets: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(regrets, n=4, method="inclusive")
    return f"{middle:.2g} [{low:.2g}, {high:.2g}]"


def _significant(number: float) -> float:
    return float(f"{number:.5g}")


if __name__ == "__main__":
    sys.exit(main())
