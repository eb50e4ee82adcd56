"""What does the stack cost while nothing happens?"""

from __future__ import annotations

import time

import psutil

from benchmarks.report import Figure
from benchmarks.support.core_share import core_share
from local_stack.settings import Part
from local_stack.stack import LocalStack
from local_stack.status import program_use

WATCH_SECONDS = 60.0
_MIB = 2**20
#: Of the service with both dialects and gRPC; 150 MB.
MAX_MIB = round(150e6 / _MIB, 1)


def measure(stack: LocalStack) -> list[Figure]:
    """Return memory and processor time of the idle service, and the memory of Airflow's parts."""
    airflow = [use for pid in _pids(stack, Part.AIRFLOW) if (use := program_use(pid)) is not None]
    together = sum(use.memory_bytes for use in airflow) / _MIB
    return [
        *measure_service(stack),
        # Shared pages counted once (PSS): the parts are forks of the same interpreter.
        Figure(name="Airflow's parts together", value=round(together, 1), unit="MiB", limit=1.2 * 1024),
    ]


def measure_service(stack: LocalStack) -> list[Figure]:
    """Return memory and processor time of the idle service."""
    (pid,) = _pids(stack, Part.TRAINING)
    service = psutil.Process(pid)
    with core_share(service) as share:
        time.sleep(WATCH_SECONDS)  # what is measured is the waiting
    processes = (service, *service.children(recursive=True))
    resident = sum(process.memory_info().rss for process in processes) / _MIB
    return [
        Figure(name="service, resident", value=round(resident, 1), unit="MiB", limit=MAX_MIB),
        Figure(name="service, of one core", value=round(share.percent, 2), unit="%", limit=1),
    ]


def _pids(stack: LocalStack, part: Part) -> list[int]:
    known = stack.processes.all()
    infos = [known[name] for name in stack.parts[part].program_names() if name in known]
    return [info.pid for info in infos if info.pid is not None]
