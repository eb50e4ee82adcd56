"""What does the stack cost while nothing happens?"""

from __future__ import annotations

import time

import psutil

from benchmarks.report import Figure
from local_stack.settings import Part
from local_stack.stack import LocalStack

WATCH_SECONDS = 60.0
_MIB = 2**20


def measure(stack: LocalStack) -> list[Figure]:
    """Return memory and processor time of the idle service, and the memory of Airflow's parts together."""
    service = _family(stack, Part.TRAINING)
    airflow = _family(stack, Part.AIRFLOW)
    before = sum(_cpu_seconds(process) for process in service)
    started = time.perf_counter()
    time.sleep(WATCH_SECONDS)  # what is measured is the waiting
    busy = sum(_cpu_seconds(process) for process in service) - before
    percent = 100 * busy / (time.perf_counter() - started)
    resident = sum(process.memory_info().rss for process in service) / _MIB
    together = sum(process.memory_full_info().pss for process in airflow) / _MIB
    return [
        Figure(name="service, resident", value=round(resident, 1), unit="MiB", limit=150),
        Figure(name="service, of one core", value=round(percent, 2), unit="%", limit=1),
        # Shared pages counted once (PSS): the parts are forks of the same interpreter.
        Figure(name="Airflow's parts together", value=round(together, 1), unit="MiB", limit=1.2 * 1024),
    ]


def _family(stack: LocalStack, part: Part) -> list[psutil.Process]:
    known = stack.processes.all()
    pids = [known[name].pid for name in stack.parts[part].program_names() if name in known]
    parents = [psutil.Process(pid) for pid in pids if pid is not None]
    return [process for parent in parents for process in (parent, *parent.children(recursive=True))]


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
