"""The thread that removes what has been kept long enough."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from training_service.upkeep.tasks import Task

#: The start of a service is busy enough.
_FIRST_SECONDS = 60.0
#: How soon a pass is repeated of which a task has failed.
_RETRY_SECONDS = 300.0
#: After each step upkeep pauses for as long as the step took, and for so long at least: others write, too.
_STEP_PAUSE_SECONDS = 0.05

logger = structlog.get_logger(__name__)


class Keeper:
    """
    Runs tasks, one after the other, again and again.

    :param tasks: by name; each in bounded steps.
    :param seconds: between the end of a pass and the beginning of the next.
    :param on_removed: is told the kind and the number of what a step has removed.
    :param on_error: is told the name of a task that has failed.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task],
        *,
        seconds: float = 3600.0,
        on_removed: Callable[[str, int], None] = lambda _kind, _count: None,
        on_error: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._tasks = tasks
        self._seconds = seconds
        self._on_removed = on_removed
        self._on_error = on_error
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="upkeep", daemon=True).start()

    def stop(self) -> None:
        """End upkeep after the step that is under way."""
        self._stopping.set()

    def work(self) -> bool:
        """Run each task once; whether none has failed."""
        results = [self._work(name, task) for name, task in self._tasks.items()]
        return all(results)

    def _work(self, name: str, task: Task) -> bool:
        removed: Counter[str] = Counter()
        started = time.monotonic()
        try:
            for kind, count in task():
                if count:
                    removed[kind] += count
                    self._on_removed(kind, count)
                if self._stopping.wait(max(time.monotonic() - started, _STEP_PAUSE_SECONDS)):
                    break
                started = time.monotonic()
        except Exception:
            # The next pass begins where this one has ended; a failure must not stop the other tasks.
            self._on_error(name)
            logger.exception("upkeep failed", task=name)
            return False
        finally:
            if removed:
                logger.info("upkeep", task=name, removed=dict(removed))
        return True

    def _run(self) -> None:
        pause = _FIRST_SECONDS
        while not self._stopping.wait(pause):
            pause = self._seconds if self.work() else min(_RETRY_SECONDS, self._seconds)
