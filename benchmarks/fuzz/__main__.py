"""
``make fuzz``: odd requests to the training service and the object store, half to each.

Both must answer every one, without a 5xx that the API does not document, without growing, and without a file
outside their folder. ``--seed`` repeats the requests of an earlier run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from benchmarks.fuzz.campaign import Outcome, assault
from benchmarks.fuzz.targets import Target, service_target, store_target
from benchmarks.report import Figure, print_report, write_report


def main() -> int:
    """Return 0 if nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000, metavar="N", help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.requests} requests", flush=True)
    half = options.requests // 2
    with ThreadPoolExecutor() as pool:
        service = pool.submit(_run, service_target, half, options.seed)
        store = pool.submit(_run, store_target, half, options.seed)
        outcomes = {"service": service.result(), "object store": store.result()}
    for name, outcome in outcomes.items():
        for fault in [*outcome.faults, *outcome.tracebacks[:3], *outcome.outside[:20]]:
            print(f"{name}: {fault}", file=sys.stderr)
    figures = {
        "all": [Figure(name="seed", value=options.seed, unit="")],
        **{name: outcome.figures() for name, outcome in outcomes.items()},
    }
    holds = print_report(figures)
    if options.keep:
        print(f"written to {write_report(figures, 'fuzz-')}")
    return 0 if holds else 1


def _run(target: Callable[[Path], AbstractContextManager[Target]], count: int, seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, target(Path(folder).resolve()) as started:
        return assault(started, count, seed)


if __name__ == "__main__":
    sys.exit(main())
