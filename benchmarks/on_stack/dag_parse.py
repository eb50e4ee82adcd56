"""How long does it take to read a DAG file, beside an earlier commit?"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.report import Figure, median_figure
from local_stack.settings import REPOSITORY_ROOT
from tests.support.earlier_version import has_commit, unpack_earlier_version

ROUNDS = 5
MAX_SECONDS = 0.5
#: The last commit before the packages were moved: files are to be read no slower than there.
EARLIER = "6ec1646"
#: Of all files together: one file's ratio differs by a fifth where other machines share the cores.
MAX_RATIO = 1.05
_PROGRAM = """
import runpy, sys, time
from airflow.sdk import DAG, Asset, Param, task
begun = time.process_time()
runpy.run_path(sys.argv[1])
print(time.process_time() - begun)
"""


def measure() -> list[Figure]:
    """
    Return the median of each file in seconds, and its least beside that of an earlier commit.

    The time is the CPU's, in fresh processes that have loaded Airflow already. A clone that lacks the earlier
    commit gives no ratios.
    """
    with TemporaryDirectory() as scratch:
        checkouts = [REPOSITORY_ROOT]
        if has_commit(REPOSITORY_ROOT, EARLIER):
            checkouts.append(Path(scratch) / "earlier")
            unpack_earlier_version(REPOSITORY_ROOT, EARLIER, checkouts[-1])
        names = sorted(path.name for path in (REPOSITORY_ROOT / "dags").glob("*.py"))
        readings = {name: _read_in_turns(name, checkouts) for name in names}
    figures = [
        median_figure(f"reading {name}", now, limit=MAX_SECONDS) for name, (now, *_) in readings.items()
    ]
    # Other processes lengthen a reading and never shorten it.
    least = {name: (min(now), min(before[0])) for name, (now, *before) in readings.items() if before}
    figures += [_ratio(name, *both) for name, both in least.items()]
    if least:
        now, before = map(sum, zip(*least.values(), strict=True))
        figures.append(_ratio("all of them", now, before, limit=MAX_RATIO))
    return figures


def _ratio(name: str, now: float, before: float, limit: float | None = None) -> Figure:
    return Figure(
        name=f"reading {name}, to commit {EARLIER}", value=round(now / before, 4), unit="x", limit=limit
    )


def _read_in_turns(name: str, checkouts: Sequence[Path]) -> list[tuple[float, ...]]:
    """Return a series of readings for each checkout that has the DAG file ``name``."""
    files = [checkout / "dags" / name for checkout in checkouts]
    # The first round compiles.
    _, *rounds = [[_read(file) for file in files if file.exists()] for _ in range(ROUNDS + 1)]
    return list(zip(*rounds, strict=True))


def _read(file: Path) -> float:
    """Return the CPU seconds in which a fresh process reads a DAG file of a checkout."""
    checkout = file.parents[1]
    environment = {
        "PYTHONPATH": f"{checkout / 'plugins'}:{checkout}",
        "AIRFLOW_HOME": str(checkout / ".local"),
        # Else each process would compile the files that are new here.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    command = [sys.executable, "-c", _PROGRAM, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | environment)
    return float(done.stdout.splitlines()[-1])
