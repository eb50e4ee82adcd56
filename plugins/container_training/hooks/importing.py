"""Imports on a thread of a process that forks, like the scheduler with a LocalExecutor."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()


@contextmanager
def importing() -> Iterator[None]:
    """
    Keep this process from being forked while the block imports modules.

    Python locks a module while it is imported. The child of a fork inherits the lock without the thread that
    would release it, so that whatever imports the module there waits for ever. In a worker of the
    LocalExecutor each task did, until Airflow gave up reading its DAG file.
    """
    with _lock:
        yield


def _begin_anew() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(
    before=lambda: _lock.acquire(), after_in_parent=lambda: _lock.release(), after_in_child=_begin_anew
)
