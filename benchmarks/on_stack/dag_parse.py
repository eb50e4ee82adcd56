"""How long does Airflow need to read a DAG file, once Airflow itself is loaded?"""

from __future__ import annotations

import runpy
import sys
import time

from benchmarks.report import Figure, median_figure
from local_stack.settings import REPOSITORY_ROOT

ROUNDS = 5
MAX_SECONDS = 0.5
#: What a DAG file imports of this project.
_OWN = frozenset({"container_engines", "container_training", "training_api"})


def measure() -> list[Figure]:
    """
    Return the median of each file.

    The project's own modules are imported anew; Airflow's are loaded already.
    """
    figures = []
    for path in sorted((REPOSITORY_ROOT / "dags").glob("*.py")):
        runpy.run_path(str(path))
        samples = [_time_reading(str(path)) for _ in range(ROUNDS)]
        figures.append(median_figure(f"reading {path.name}", samples, limit=MAX_SECONDS))
    return figures


def _time_reading(path: str) -> float:
    for name in [name for name in sys.modules if name.partition(".")[0] in _OWN]:
        del sys.modules[name]
    started = time.perf_counter()
    runpy.run_path(path)
    return time.perf_counter() - started
