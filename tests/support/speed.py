"""How much slower this machine is now than an idle one: the factor of the tests' deadlines."""

from __future__ import annotations

import functools
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

#: Names the factor for the processes of one run, so that it is measured once, before they load the machine
#: themselves.
VARIABLE = "TESTS_SLOWNESS"
#: How many parts of the suite run at once in this run. Unset: one.
PARTS_VARIABLE = "TESTS_PARTS"
#: What takes the time: to start an interpreter and to load some two hundred modules, compiled ones among
#: them.
_PROGRAM = "import httpx, pydantic"
#: Seconds that it takes on an idle machine with two cores.
REFERENCE_SECONDS = 0.37
_RUNS = 3


@functools.cache
def slowness() -> float:
    """
    Return how many times slower this machine is than an idle one; at least 1.0.

    The idle one has two cores.

    Taken from ``TESTS_SLOWNESS`` where that is set, else measured (about 1.5 s on an idle machine), once a
    process.

    :raises ValueError: ``TESTS_SLOWNESS`` is not a number.
    """
    given = os.environ.get(VARIABLE)
    return max(1.0, float(given)) if given else measure()


def scaled(seconds: float) -> float:
    """
    Return the deadline for what takes less than ``seconds`` on an idle machine.

    It is longer where more parts of the suite run at once than the machine has cores.
    """
    return seconds * slowness() * sharing(int(os.environ.get(PARTS_VARIABLE, "1")), os.cpu_count() or 1)


def drawn_out(seconds: float, *, most: float = 3.0) -> float:
    """Return ``scaled(seconds)`` of a limit that tests wait for: at most ``most`` times as much."""
    return min(scaled(seconds), seconds * most)


def sharing(parts: int, cores: int) -> int:
    """Return how many parts of the suite share a core, at least 1. Pure."""
    return max(1, math.ceil(parts / cores))


def measure(start: Callable[[], object] | None = None, clock: Callable[[], float] = time.monotonic) -> float:
    """
    Measure ``slowness()`` anew: the median of three starts of a Python process.

    :param start: starts the process and waits for its end.
    """
    taken = []
    for _ in range(_RUNS):
        begun = clock()
        (start or _start)()
        taken.append(clock() - begun)
    return max(1.0, statistics.median(taken) / REFERENCE_SECONDS)


def _start() -> None:
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True)
