"""How much of a core a process uses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil


@dataclass(slots=True)
class CoreShare:
    """The share of a core in per cent; known when the block of :func:`core_share` has ended."""

    percent: float = 0.0


@contextmanager
def core_share(process: psutil.Process) -> Iterator[CoreShare]:
    """Yield what ``process`` and its children use of a core while the block runs."""
    share = CoreShare()
    busy, started = _cpu_seconds(process), time.perf_counter()
    yield share
    share.percent = 100 * (_cpu_seconds(process) - busy) / (time.perf_counter() - started)


def _cpu_seconds(process: psutil.Process) -> float:
    return float(sum(sum(each.cpu_times()[:2]) for each in (process, *process.children(recursive=True))))
