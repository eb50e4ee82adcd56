"""How long is ``make demo`` when the stack is up?"""

from __future__ import annotations

import json
import subprocess
import time

from benchmarks.report import Figure, median_figure
from local_stack.settings import REPOSITORY_ROOT

ROUNDS = 2
MAX_WARM_SECONDS = 60.0


def measure() -> list[Figure]:
    """Return the median time of the whole command; the stack must be up."""
    samples = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        done = subprocess.run(
            ["make", "demo"], cwd=REPOSITORY_ROOT, check=True, capture_output=True, text=True
        )
        samples.append(time.perf_counter() - started)
        result = json.loads(done.stdout.splitlines()[-1])
        if result["state"] != "SUCCEEDED":
            raise RuntimeError(f"the demo failed: {result}")
    return [median_figure("make demo, stack up", samples, limit=MAX_WARM_SECONDS)]
