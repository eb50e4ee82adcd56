"""
Whether the worker that started this task is still there.

An Airflow worker starts each task in a process of its own. SIGKILL to the worker - of an out-of-memory
killer, or because a scheduler with a LocalExecutor does not stop in time - leaves that process alone: it
works on, nobody hears of it, and the next try does the same work beside it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from container_training.airflow_internals.tasks import has_supervisor

_LOOK_SECONDS = 1.0


class WorkerWatch:
    """
    Remembers the worker of this process.

    A process that no worker started, as in ``dag.test()`` and in tests, has none to lose: there the parent is
    a shell, whose end means nothing.
    """

    def __init__(self) -> None:
        self._worker = os.getppid() if has_supervisor() else None

    @property
    def is_alone(self) -> bool:
        """Whether there was a worker, and is no more."""
        return self._worker is not None and os.getppid() != self._worker

    def call_when_alone(self, act: Callable[[], object]) -> None:
        """
        Call ``act`` on another thread within a second of the worker's end.

        Never without a worker.
        """
        if self._worker is not None:
            threading.Thread(target=self._wait, args=(act,), name="worker-watch", daemon=True).start()

    def _wait(self, act: Callable[[], object]) -> None:
        pause = threading.Event()
        while not self.is_alone:
            pause.wait(_LOOK_SECONDS)
        act()
