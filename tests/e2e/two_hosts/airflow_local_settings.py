"""
Airflow's settings of the tests with two worker hosts.

A run that asks for it has its tasks spread in turn over the two.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

HOSTS = ("node1", "node2")


def task_instance_mutation_hook(task_instance: Any, dag_run: Any = None) -> None:
    """Give the task to one host, always the same one, if the run's ``conf`` has ``spread``."""
    if dag_run is not None and (dag_run.conf or {}).get("spread"):
        task_instance.queue = host_of(task_instance.task_id)


def host_of(task_id: str) -> str:
    """Return the host, whose queue has its name, for a task."""
    name = task_id.rpartition(".")[2]
    turn = {"build": 0, "test": 1, "preflight": 0, "push": 1, "grant": 0, "submit": 1, "collect": 0}
    return HOSTS[turn.get(name, crc32(task_id.encode()) % 2)]
